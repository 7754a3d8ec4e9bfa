/**
 * The detector alone against a fault-free fleet that is as bad as fleets are: jitter, stalls of main loops and of whole hosts' networks,
 * lost beats, broker failovers. Nobody may be evicted (reliability 4.4, L6). `MUSTER_DETECTOR_NODE_HOURS` asks for more hours.
 */
import { type Random, randomOf } from "@muster/base";
import { type BeatReading, FailureDetector, type Watched } from "@muster/machines";
import { describe, expect, it } from "vitest";
import { timing } from "./watcher.ts";

const hourMs = 3_600_000;
const nodes = 500;

/** One member: when its next beat comes, and until when its main loop stands. */
interface Node {
  readonly watched: Watched;
  readonly beat: { -readonly [K in keyof BeatReading]: BeatReading[K] };
  nextMs: number;
  stallUntilMs: number;
  nextStallMs: number;
}

/** Pareto with shape 1.5: most stalls are short, a few are a minute. */
function stallMs(random: Random): number {
  return Math.min(60_000, 500 * (1 - random.next()) ** (-1 / 1.5));
}

const untilNext = (meanMs: number, random: Random): number => -meanMs * Math.log(1 - random.next());

/** Gaps between beats: a second, varied by 10 %. */
const gapsMs = (() => {
  const random = randomOf(11);
  return Array.from({ length: 1_024 }, () => 900 + 200 * random.next());
})();

class Fleet {
  readonly detector = new FailureDetector(timing);
  readonly members: readonly Watched[];
  readonly said = new Map<string, number>();
  readonly #nodes: readonly Node[];
  readonly #random: Random;
  nowMs = 0;
  #failoverMs: number;
  #awayUntilMs = 0;
  #beats = 0;
  #lostAt = 100;
  #lateAt = 1_000;

  constructor(seed: number) {
    this.#random = randomOf(seed);
    this.#nodes = Array.from({ length: nodes }, (_, i) => this.#node(i));
    this.members = this.#nodes.map(({ watched }) => watched);
    this.#failoverMs = untilNext(2 * hourMs, this.#random);
    this.detector.look(this.members, { nowMs: 0, factor: 1 });
  }

  /** Lets a second pass: the beats of it arrive, then the watcher looks. */
  second(): void {
    this.nowMs += 1_000;
    const isAway = this.#broker();
    for (const node of this.#nodes) this.#live(node, isAway);
    if (isAway) return;
    for (const { type, kind } of this.detector.look(this.members, { nowMs: this.nowMs, factor: 1 }).verdicts) {
      const line = `${type} ${kind}`;
      this.said.set(line, (this.said.get(line) ?? 0) + 1);
    }
  }

  count(type: string): number {
    return [...this.said].reduce((sum, [line, count]) => sum + (line.startsWith(type) ? count : 0), 0);
  }

  /** A failover takes the broker away for six to nine seconds; the watcher notices its end, and the ends of all connections. */
  #broker(): boolean {
    if (this.nowMs >= this.#failoverMs) {
      this.#awayUntilMs = this.nowMs + 6_000 + 3_000 * this.#random.next();
      this.#failoverMs = this.nowMs + untilNext(2 * hourMs, this.#random);
    }
    const isAway = this.nowMs < this.#awayUntilMs;
    if (!isAway && this.#awayUntilMs > 0) {
      this.#awayUntilMs = 0;
      this.detector.blinded(this.nowMs);
    }
    return isAway;
  }

  #live(node: Node, isAway: boolean): void {
    const random = this.#random;
    if (this.nowMs >= node.nextStallMs) {
      node.stallUntilMs = this.nowMs + stallMs(random);
      node.nextStallMs = node.stallUntilMs + untilNext(hourMs, random);
    }
    const { beat } = node;
    beat.loopLagMs = Math.max(0, Math.min(60_000, node.stallUntilMs - this.nowMs));
    if (beat.loopLagMs === 0) beat.progress += 1;
    while (node.nextMs <= this.nowMs) {
      beat.seq += 1;
      this.#beats += 1;
      // Drawing the number of beats until the next rare event is as good as drawing for each beat, and cheaper.
      const isLost = this.#beats >= this.#lostAt;
      if (isLost) this.#lostAt = this.#beats + untilNext(100, random);
      else if (!isAway) this.detector.beat(beat, node.nextMs);
      node.nextMs += gapsMs[this.#beats & 1_023] ?? 1_000;
      if (this.#beats < this.#lateAt) continue;
      this.#lateAt = this.#beats + untilNext(1_000, random);
      node.nextMs += 2_000 * random.next();
    }
  }

  #node(i: number): Node {
    const id = `${i % 3 === 0 ? "policy" : "rollout"}-${i}`;
    const role = i % 3 === 0 ? "policy" : "rollout";
    const watched = { id, incarnation: "i1", role } as const;
    const beat = { id, incarnation: "i1", seq: 0, phase: "computing", progress: 0, loopLagMs: 0, failures: 0 };
    const nextStallMs = untilNext(hourMs, this.#random);
    return { watched, beat, nextMs: 1_000 * this.#random.next(), stallUntilMs: 0, nextStallMs };
  }
}

describe("a fleet without a fault", () => {
  const nodeHours = Number(process.env.MUSTER_DETECTOR_NODE_HOURS ?? 10_000);

  it(`loses nobody in ${nodeHours} node-hours of jitter, stalls, lost beats and broker failovers`, {
    timeout: Math.max(300_000, nodeHours * 12),
  }, () => {
    const fleet = new Fleet(20_261);
    const seconds = Math.ceil((nodeHours / nodes) * 3_600);
    for (let i = 0; i < seconds; i++) fleet.second();
    expect(fleet.count("verdict.dead"), [...fleet.said].join("; ")).toBe(0);
    // A main loop that stands for less than the time to hang is no reason to take its work away; one in a few hundred stalls is longer.
    expect(fleet.count("verdict.suspect")).toBeLessThan(nodeHours / 10);
  });
});
