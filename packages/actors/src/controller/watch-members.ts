/** Feeds the failure detector with what is heard of the members, and the controller with its verdicts. */
import type { Clock, Metrics } from "@muster/base";
import {
  type DetectorTiming,
  FailureDetector,
  localHealth,
  type Probe,
  type SelfObservation,
  type Watched,
} from "@muster/machines";
import type { VerdictEvent } from "@muster/machines/controller";
import type { AnyMessage, Body } from "@muster/protocol";
import type { TransportStatus } from "@muster/transport";
import { watchMetersOn } from "./watch-metrics.ts";

/** Latest heartbeat of a member, for display. */
export type Beat = Body<"heartbeat.beat"> & { readonly incarnation: string; readonly atMs: number };

/** What is due now. */
export interface DueNow {
  readonly verdicts: readonly VerdictEvent[];
  /** Questions to send. */
  readonly probes: readonly Probe[];
  /** Said once when the detector stops evicting anybody; else `null`. */
  readonly alarm: string | null;
  /** A connection to the broker that ends too often; else `null`. */
  readonly outages: string | null;
}

/** The watch over the members of a job. */
export interface MemberWatch {
  /** A heartbeat or the answer to a probe; other messages mean nothing here. */
  heard(message: AnyMessage): void;
  /** A report; what it says of missing members is evidence. */
  reported(message: AnyMessage): void;
  /** The broker saw a connection end. @param name - Its name: `<role>.<id>.<incarnation>`, and maybe more. */
  disconnected(name: string): void;
  /** The broker tells of ended connections from now on. */
  hearsDisconnects(): void;
  /** The connection to the broker ended, or is back: silence until then proves nothing. */
  connection(status: TransportStatus["type"]): void;
  /** This process was away for the last `ms`, which count for nobody's silence. */
  stoodStill(ms: number): void;
  /** How this process itself fared in the last second. */
  observed(self: SelfObservation): void;
  /** Looks at the members, in order of arrival. */
  look(members: readonly Watched[]): DueNow;
  beats(): ReadonlyMap<string, Beat>;
}

/** A life that was evicted and speaks within this time was evicted wrongly, or had stood still. */
const falseWithinMs = 600_000;
const evictedMax = 256;

/** Starts watching. */
export function watchMembers(clock: Clock, timing: DetectorTiming, metrics: Metrics): MemberWatch {
  return new Watch(clock, timing, metrics);
}

class Watch implements MemberWatch {
  readonly #clock: Clock;
  readonly #timing: DetectorTiming;
  readonly #detector: FailureDetector;
  readonly #meters: ReturnType<typeof watchMetersOn>;
  readonly #beats = new Map<string, Beat>();
  /** Lives that were evicted lately, and when. */
  readonly #evicted = new Map<string, number>();
  /** Of the members that were looked at last: nobody beats, answers or blames under the name of another role's member. */
  #roles: ReadonlyMap<string, string> = new Map();
  #health = 0;

  constructor(clock: Clock, timing: DetectorTiming, metrics: Metrics) {
    this.#clock = clock;
    this.#timing = timing;
    this.#detector = new FailureDetector(timing);
    this.#meters = watchMetersOn(metrics);
  }

  heard(message: AnyMessage): void {
    if (this.#isForged(message)) return;
    const nowMs = this.#clock.now();
    const { from: id, incarnation, seq } = message;
    if (message.kind === "probe.answered") this.#detector.answered({ id, incarnation, ...message.body }, nowMs);
    if (message.kind !== "heartbeat.beat") return;
    const { phase, progress, loopLagMs, engine } = message.body;
    const failures = Math.max(engine?.liveness ?? 0, engine?.generation ?? 0);
    this.#detector.beat({ id, incarnation, seq, phase, progress, loopLagMs, failures }, nowMs);
    this.#beats.set(id, { ...message.body, incarnation, atMs: nowMs });
    this.#rise(incarnation, nowMs);
  }

  reported(message: AnyMessage): void {
    if (this.#isForged(message)) return;
    if (message.kind !== "step.voted" && message.kind !== "mesh.failed") return;
    this.#detector.blamed(message.from, message.body.missing ?? [], this.#clock.now());
  }

  #isForged({ from, role }: AnyMessage): boolean {
    return (this.#roles.get(from) ?? role) !== role;
  }

  hearsDisconnects(): void {
    this.#detector.hearsDisconnects();
  }

  disconnected(name: string): void {
    const [, id = "", incarnation = ""] = name.split(".");
    this.#detector.disconnected(id, incarnation, this.#clock.now());
  }

  connection(status: TransportStatus["type"]): void {
    if (status === "disconnected") this.#detector.lost(this.#clock.now());
    if (status === "reconnected") this.#detector.blinded(this.#clock.now());
  }

  stoodStill(ms: number): void {
    this.#detector.stoodStill(ms, this.#clock.now());
  }

  observed(self: SelfObservation): void {
    this.#health = localHealth(this.#health, self, this.#timing.intervalMs);
    this.#meters.localHealth.set(this.#health);
    const nowMs = this.#clock.now();
    this.#meters.phi.set(this.#detector.highestPhi(nowMs, this.#health + 1));
    this.#meters.isViewSuspect.set(this.#detector.isBraked(nowMs) ? 1 : 0);
    this.#meters.loopLagMs.set([...this.#beats.values()].reduce((max, beat) => Math.max(max, beat.loopLagMs), 0));
  }

  look(members: readonly Watched[]): DueNow {
    const nowMs = this.#clock.now();
    const { verdicts, probes, alarm, outages } = this.#detector.look(members, { nowMs, factor: this.#health + 1 });
    for (const verdict of verdicts) this.#count(verdict, nowMs);
    this.#roles = new Map(members.map(({ id, role }) => [id, role]));
    for (const id of this.#beats.keys()) if (!this.#roles.has(id)) this.#beats.delete(id);
    return { verdicts: verdicts.map((verdict) => ({ ...verdict, atMs: nowMs })), probes, alarm, outages };
  }

  beats(): ReadonlyMap<string, Beat> {
    return this.#beats;
  }

  #count({ type, kind, incarnation }: Omit<VerdictEvent, "atMs">, nowMs: number): void {
    if (type === "verdict.suspect") this.#meters.suspected(kind);
    if (type === "verdict.hung") this.#meters.hung();
    if (type !== "verdict.dead" || this.#evicted.has(incarnation)) return;
    this.#meters.evicted(kind);
    // An engine that is ill, or a data path that is broken, says nothing against the heart.
    if (kind !== "silence") return;
    this.#evicted.set(incarnation, nowMs);
    const [oldest] = this.#evicted.keys();
    if (this.#evicted.size > evictedMax && oldest !== undefined) this.#evicted.delete(oldest);
  }

  /** Counts a life that was evicted and speaks again. Beats on their way when the verdict fell are none. */
  #rise(incarnation: string, nowMs: number): void {
    const evictedMs = this.#evicted.get(incarnation);
    if (evictedMs === undefined) return;
    this.#evicted.delete(incarnation);
    if (nowMs - evictedMs < falseWithinMs) this.#meters.evictedFalsely();
  }
}
