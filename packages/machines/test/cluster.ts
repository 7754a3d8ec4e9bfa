/**
 * A whole job in one thread with virtual time: the real machines, and models of everything around them. Reports come late, out of order
 * and more than once; commands come in order per replica, maybe more than once; that is what the broker promises.
 */
import { type Random, randomOf } from "@muster/base";
import { type DetectorTiming, FailureDetector, type ReportEffect, type TimerEffect } from "@muster/machines";
import {
  type ControllerEffect,
  type ControllerEvent,
  type ControllerPlan,
  controllerLogic,
} from "@muster/machines/controller";
import type { ReplicaRole } from "@muster/protocol";
import { DataPlane } from "./data-plane.ts";
import { type ReplicaEffect, ReplicaHost } from "./replica-host.ts";
import { VirtualTime } from "./virtual-time.ts";

/** What goes wrong on the way, as shares of all messages. */
export interface Faults {
  /** Reports and commands that arrive twice. */
  readonly duplicated: number;
  /** Reports that are overtaken by others, by up to `lateMs`. */
  readonly late: number;
  readonly lateMs: number;
}

export interface ClusterOptions {
  readonly seed: number;
  readonly plan: ControllerPlan;
  /** Largest delay of a message in ms. */
  readonly delayMs?: number;
  readonly faults?: Faults;
  readonly observers?: readonly Observer[];
}

/** Sees everything and changes nothing. */
export interface Observer {
  /** The controller took an input. */
  input?(cluster: Cluster, event: ControllerEvent): void;
  /** The controller asks for something. */
  controlled?(cluster: Cluster, effect: ControllerEffect): void;
  /** A replica asks for something. */
  performed?(cluster: Cluster, replica: ReplicaHost, effect: ReplicaEffect): void;
}

const noFaults: Faults = { duplicated: 0, late: 0, lateMs: 0 };
const tickMs = 200;
const detection: DetectorTiming = {
  intervalMs: tickMs,
  pauseMs: 500,
  phiMax: 8,
  missedMax: 5,
  deadAfterMs: { policy: 3_000, rollout: 3_000, checkpoint: 3_000, node: 3_000 },
  probes: 3,
  probeTimeoutMs: 200,
  hungMinMs: 10_000,
  hungMaxMs: 20_000,
  graceMs: 60_000,
  failuresMax: 3,
};

export class Cluster {
  readonly options: ClusterOptions;
  readonly time = new VirtualTime();
  readonly data: DataPlane;
  readonly replicas = new Map<string, ReplicaHost>();
  readonly announced: Extract<ControllerEffect, { type: "announce" }>[] = [];
  readonly commands: string[] = [];
  /** The journal. */
  readonly inputs: ControllerEvent[] = [];
  readonly drops = new Map<string, number>();
  controller;
  stopped: Extract<ControllerEffect, { type: "controller.stop" }> | null = null;
  /** Reports that wait for a controller; `null` while one acts. */
  #waiting: ControllerEvent[] | null = null;
  /** Reports taken last; a new controller gets some of them again. */
  #recent: ControllerEvent[] = [];
  /** Time without a controller once the next input is journaled; `null` when nothing is planned. */
  #dieAtNextInput: number | null = null;
  #detector = new FailureDetector(detection);
  #beats = 0;
  #incarnations = 0;
  readonly #arrivals = new Map<string, number>();
  readonly #controllerTimers = new Map<string, () => void>();
  readonly #random: Random;
  readonly #faultRandom: Random;

  constructor(options: ClusterOptions) {
    this.options = options;
    this.#random = randomOf(options.seed);
    this.#faultRandom = randomOf(options.seed, 77);
    this.data = new DataPlane(this.time, options.plan.timing.stepMs / 2);
    this.controller = controllerLogic.init(options.plan).snapshot;
    this.input({ type: "controller.elected", atMs: 0, term: 1 });
    this.#tick();
  }

  get nowMs() {
    return this.time.nowMs;
  }

  get state() {
    return this.controller.context.state;
  }

  /** Starts a replica. */
  start(role: ReplicaRole, id: string): void {
    const count = ++this.#incarnations;
    const replica = new ReplicaHost({
      id,
      role,
      incarnation: `i${count}`,
      pid: count,
      plan: this.options.plan,
      time: this.time,
      data: this.data,
      random: this.#random,
      report: (from, effect) => this.#report(from, effect),
      observe: (from, effect) => this.#observe(from, effect),
      ended: (from, outcome) => this.#ended(from, outcome),
    });
    if (replica.isAlive) this.replicas.set(id, replica);
  }

  /** Ends a process as SIGKILL would. `seen`: its supervisor tells the controller at once. */
  kill(id: string, seen = true): void {
    const replica = this.replicas.get(id);
    if (!replica) return;
    this.replicas.delete(id);
    replica.kill();
    const body = { id, host: "h", pid: replica.pid, code: null, signal: "SIGKILL" };
    const event = { type: "process.exited", from: "node", role: "operator", incarnation: "n", body } as const;
    if (seen) this.time.after(5, () => this.#arrive({ ...event, atMs: this.nowMs }));
  }

  /** Asks a process to leave, as SIGTERM would. */
  stop(id: string): void {
    this.replicas.get(id)?.hear({ type: "process.stopping", reason: "asked" });
  }

  /** Stops a process for a time, as SIGSTOP would. */
  freeze(id: string, ms: number): void {
    this.replicas.get(id)?.freeze(ms);
  }

  /** Hangs the main loop of a process for good: it hears nothing more, while its heartbeat thread goes on. */
  deafen(id: string): void {
    this.replicas.get(id)?.deafen();
  }

  /** An operator's word. */
  operate(type: "job.stop" | "replica.drain", body: object): void {
    this.#arrive({ type, from: "ops", role: "operator", incarnation: "o", atMs: this.nowMs, body } as ControllerEvent);
  }

  /**
   * Replaces the controller by one that replayed the journal. What was taken but not acknowledged comes again.
   *
   * @param options - `downMs`: time without a controller. `lost`: the effects of the next input are lost with the old one.
   */
  failover({ downMs = 0, lost = false }: { readonly downMs?: number; readonly lost?: boolean } = {}): void {
    if (lost) {
      this.#dieAtNextInput = downMs;
      return;
    }
    this.#waiting ??= [];
    for (const cancel of this.#controllerTimers.values()) cancel();
    this.#controllerTimers.clear();
    this.time.after(downMs, () => this.#elect());
  }

  /** The state that the journal gives. */
  replay() {
    return this.inputs.reduce(
      (snapshot, event) => controllerLogic.step(snapshot, event).snapshot,
      controllerLogic.init(this.options.plan).snapshot,
    );
  }

  /** Runs until the condition holds. @returns False when `limitMs` of virtual time passed first. */
  runUntil(condition: () => boolean, limitMs = 600_000): boolean {
    return this.time.runUntil(condition, limitMs);
  }

  input(event: ControllerEvent): void {
    const { snapshot, effects } = controllerLogic.step(this.controller, event);
    if (snapshot !== this.controller || effects.length > 0) this.inputs.push(event);
    this.controller = snapshot;
    for (const observer of this.options.observers ?? []) observer.input?.(this, event);
    if (this.#dieAtNextInput !== null) {
      const downMs = this.#dieAtNextInput;
      this.#dieAtNextInput = null;
      this.failover({ downMs });
      return;
    }
    for (const effect of effects) this.#control(effect as ControllerEffect | TimerEffect<ControllerEvent>);
  }

  #elect(): void {
    if (!this.#waiting) return;
    const missed = this.#waiting;
    const again = this.#recent.slice(this.#recent.length - this.#faultRandom.below(this.#recent.length + 1));
    this.#waiting = null;
    this.#detector = new FailureDetector(detection);
    this.controller = this.replay();
    this.input({ type: "controller.elected", atMs: this.nowMs, term: this.state.term + 1 });
    for (const event of [...again, ...missed]) this.#arrive({ ...event, atMs: this.nowMs });
  }

  #tick(): void {
    if (this.stopped) return;
    if (!this.#waiting) {
      this.#detect();
      this.input({ type: "controller.tick", atMs: this.nowMs });
    }
    this.time.after(tickMs, () => this.#tick());
  }

  /** Heartbeats and verdicts. A life that is over beats no more; one that was evicted and does not know it yet does. */
  #detect(): void {
    const rest = { phase: "idle", progress: 0, loopLagMs: 0, failures: 0 };
    for (const { id, incarnation, isFrozen } of this.replicas.values())
      if (!isFrozen) this.#detector.beat({ id, incarnation, seq: ++this.#beats, ...rest }, this.nowMs);
    const members = Object.values(this.state.members);
    // The broker sees the end of who is dead, and of who stands still for a while.
    for (const { id, incarnation } of members) {
      const replica = this.replicas.get(id);
      const isThere = replica?.incarnation === incarnation && !replica.isFrozen;
      if (!isThere) this.#detector.disconnected(id, incarnation, this.nowMs);
    }
    const { verdicts } = this.#detector.look(members, { nowMs: this.nowMs, factor: 1 });
    for (const verdict of verdicts) this.input({ ...verdict, atMs: this.nowMs });
  }

  #control(effect: ControllerEffect | TimerEffect<ControllerEvent>): void {
    if (effect.type !== "timer.start" && effect.type !== "timer.cancel")
      for (const observer of this.options.observers ?? []) observer.controlled?.(this, effect);
    switch (effect.type) {
      case "command":
        this.commands.push(`${effect.to} ${effect.kind}`);
        this.#deliver(effect, { type: effect.kind, body: effect.body });
        return;
      case "admit":
        this.#deliver(effect, { type: "replica.registered", body: {}, config: this.#config() });
        return;
      case "announce":
        this.announced.push(effect);
        return;
      case "controller.stop":
        this.stopped = effect;
        return;
      case "timer.start":
        this.#controllerTimers.get(effect.id)?.();
        this.#controllerTimers.set(
          effect.id,
          this.time.after(effect.delayMs, () => this.input(effect.event)),
        );
        return;
      case "timer.cancel":
        this.#controllerTimers.get(effect.id)?.();
        return;
      case "groups.purge":
        this.data.purge(effect.beforeSeq);
    }
  }

  /** The part of the configuration that replicas read. */
  #config() {
    const { timing, limits } = this.options.plan;
    return { timing, limits };
  }

  /** Commands keep their order per replica; another life of the id never sees them. */
  #deliver({ to, incarnation }: { readonly to: string; readonly incarnation: string }, event: unknown): void {
    const { duplicated } = this.options.faults ?? noFaults;
    const copies = this.#faultRandom.next() < duplicated ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      const atMs = Math.max(this.nowMs + this.#delay(), this.#arrivals.get(incarnation) ?? 0);
      this.#arrivals.set(incarnation, atMs);
      this.time.after(atMs - this.nowMs, () => {
        const replica = this.replicas.get(to);
        if (replica?.incarnation === incarnation) replica.hear(event);
      });
    }
  }

  #delay(): number {
    return 1 + this.#random.next() * (this.options.delayMs ?? 5);
  }

  #report({ id, role, incarnation }: ReplicaHost, { kind, body }: ReportEffect): void {
    const { duplicated, late, lateMs } = this.options.faults ?? noFaults;
    const copies = this.#faultRandom.next() < duplicated ? 2 : 1;
    for (let i = 0; i < copies; i++) {
      const lateness = this.#faultRandom.next() < late ? this.#faultRandom.next() * lateMs : 0;
      const event = { type: kind, from: id, role, incarnation, body };
      this.time.after(this.#delay() + lateness, () => this.#arrive({ ...event, atMs: this.nowMs } as ControllerEvent));
    }
  }

  #arrive(event: ControllerEvent): void {
    if (this.#waiting) {
      this.#waiting.push(event);
      return;
    }
    this.#recent = [...this.#recent, event].slice(-4);
    this.input(event);
  }

  #observe(replica: ReplicaHost, effect: ReplicaEffect): void {
    for (const observer of this.options.observers ?? []) observer.performed?.(this, replica, effect);
    if (effect.type !== "drop") return;
    const name = `${effect.kind}: ${effect.reason}`;
    this.drops.set(name, (this.drops.get(name) ?? 0) + 1);
  }

  #ended(replica: ReplicaHost, outcome: string): void {
    if (this.replicas.get(replica.id) === replica) this.replicas.delete(replica.id);
    if (outcome === "fenced")
      this.time.after(100, () => this.replicas.has(replica.id) || this.start(replica.role, replica.id));
  }
}
