/** Barriers in the controller: arrivals as messages, deadlines by its clock, ends as public facts, all of it in the journal's fold. */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import { describe, expect, it } from "vitest";
import { isBarrierWaiting } from "../src/controller/barriers/plan-barriers.ts";
import { initialControllerState } from "../src/controller/state.ts";
import { bodiesOf, planWith } from "./states.ts";

class Desk {
  state: ControllerState;
  said: ReturnType<typeof control>["effects"] = [];

  constructor() {
    this.state = initialControllerState(planWith());
    this.hear({ type: "controller.elected", term: 1 });
  }

  hear(event: object, atMs = this.state.nowMs): this {
    const { state, effects } = control(this.state, { atMs, ...event } as ControllerEvent);
    this.state = state;
    this.said = effects;
    return this;
  }

  arrive(rank: number, patch: object = {}, sender: object = {}): this {
    const body = { epoch: 0, iteration: 1, phase: 4, rank, ranks: 3, quorum: 2, timeoutMs: 1_000, ...patch };
    const from = { from: `host-${rank}`, role: "operator", incarnation: `i${rank}`, ...sender };
    return this.hear({ type: "barrier.arrived", ...from, body });
  }

  tick(atMs: number): this {
    return this.hear({ type: "controller.tick" }, atMs);
  }

  ended() {
    return bodiesOf(this.said, "barrier.ended");
  }

  refused() {
    return bodiesOf(this.said, "barrier.refused").map(({ reason }) => reason);
  }
}

const eject = { onMissing: "eject" };

describe("a barrier of scripts", () => {
  it("ends with the last arrival, says so once, and brings what rank 0 decided", () => {
    const desk = new Desk().arrive(2).arrive(0, { decision: "eval" });
    expect(desk.ended()).toEqual([]);
    expect(desk.arrive(1).ended()).toEqual([
      expect.objectContaining({ outcome: "whole", arrived: [0, 1, 2], missing: [], decision: "eval" }),
    ]);
    expect(desk.tick(99_999).ended()).toEqual([]);
  });

  it("answers whoever asks again as before", () => {
    const desk = new Desk().arrive(0).arrive(1).arrive(2);
    const [first] = desk.ended();
    expect(desk.arrive(1, { done: [] }).ended()).toEqual([]);
    expect(desk.tick(2_000).ended()).toEqual([first]);
    expect(desk.tick(99_999).ended()).toEqual([]);
  });

  it("answers all who ask again at once with one answer, at most one every two seconds", () => {
    const desk = new Desk();
    for (const rank of [0, 1, 2]) desk.arrive(rank);
    const [first] = desk.ended();
    const answers = [];
    for (let atMs = 10; atMs <= 10_000; atMs += 10) {
      for (const rank of [0, 1, 2]) answers.push(...desk.arrive(rank, { done: [] }).ended());
      answers.push(...desk.tick(atMs).ended());
    }
    expect(answers).toEqual(Array(5).fill(first));
    // Whoever asked last is answered, too, and then nobody waits.
    expect(desk.arrive(0).tick(12_000).ended()).toEqual([first]);
    expect(desk.tick(99_999).ended()).toEqual([]);
  });

  it("answers who asked a controller that is gone from the one after it", () => {
    const desk = new Desk().arrive(0).arrive(1).arrive(2);
    const [first] = desk.ended();
    desk.arrive(1).hear({ type: "controller.elected", term: 2 }, 500_000);
    expect(desk.tick(502_000).ended()).toEqual([first]);
  });

  it("names in an alarm who is missing when it is to wait, again after each deadline, and goes on waiting", () => {
    const desk = new Desk().arrive(0);
    for (const atMs of [1_000, 2_000]) {
      const [alarm] = bodiesOf(desk.tick(atMs).said, "alarm.raised");
      expect(alarm).toMatchObject({ alarm: "barrier", detail: expect.stringContaining("waits for ranks 1, 2") });
    }
    desk.arrive(1).arrive(2);
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", waitedMs: 2_000 })]);
  });

  it("goes on without a rank, waits for it no more, and takes it back at phase 0 of a later iteration", () => {
    const desk = new Desk().arrive(0, eject).arrive(1, eject).tick(1_000);
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "partial", missing: [2] })]);
    expect(desk.arrive(2, eject).refused()).toEqual([expect.stringContaining("went on without rank 2")]);
    expect(desk.arrive(2, { phase: 5, ...eject }).refused()).toEqual([
      expect.stringContaining("phase 0 of iteration 2"),
    ]);
    desk.arrive(0, { phase: 5, ...eject }).arrive(1, { phase: 5, ...eject });
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0, 1] })]);
    const next = { iteration: 2, phase: 0, ...eject };
    desk.arrive(2, next).arrive(0, next).arrive(1, next);
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0, 1, 2] })]);
    expect(desk.state.barriers?.out).toEqual({});
  });

  it("waits for no rank that has come back and waits at a later iteration already", () => {
    const desk = new Desk().arrive(0, eject).arrive(1, eject).tick(1_000);
    const next = { iteration: 2, phase: 0, ...eject };
    expect(desk.arrive(2, next).refused()).toEqual([]);
    // The others are not there yet: they finish their iteration first, and nothing keeps them waiting.
    for (const phase of [5, 6]) {
      desk.arrive(0, { phase, ...eject }).arrive(1, { phase, ...eject });
      expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0, 1], missing: [] })]);
    }
    desk.arrive(0, next).arrive(1, next);
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0, 1, 2] })]);
    const after = { iteration: 2, phase: 1, ...eject };
    expect(desk.arrive(2, after).refused()).toEqual([]);
    expect(desk.arrive(0, after).ended()).toEqual([]);
    expect(desk.arrive(1, after).ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0, 1, 2] })]);
  });

  it("evicts nobody for the sake of a rank that came back alone: its time begins with the first of the others", () => {
    const two = { ranks: 2, quorum: 1, ...eject };
    const next = { ...two, iteration: 2, phase: 0 };
    const desk = new Desk().arrive(0, two).tick(1_000).arrive(1, next);
    for (const atMs of [2_000, 3_000, 4_500]) {
      expect(bodiesOf(desk.tick(atMs).said, "alarm.raised")).toEqual([
        expect.objectContaining({ detail: expect.stringContaining("waits for rank 0") }),
      ]);
      expect(desk.ended()).toEqual([]);
    }
    desk.arrive(1, next).arrive(0, { ...two, phase: 9 });
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0] })]);
    desk.arrive(0, next);
    expect(desk.ended()).toEqual([expect.objectContaining({ outcome: "whole", arrived: [0, 1] })]);
  });

  it("counts its time from the first rank that did not come back, and then goes on without the others", () => {
    const desk = new Desk().arrive(0, eject).arrive(1, eject).tick(1_000);
    const next = { iteration: 2, phase: 0, ...eject };
    desk.arrive(2, next).arrive(0, next, { atMs: 1_900 }).arrive(0, next).arrive(2, next);
    expect(desk.tick(2_899).ended()).toEqual([]);
    expect(desk.tick(2_900).ended()).toEqual([
      expect.objectContaining({ outcome: "partial", arrived: [0, 2], missing: [1], waitedMs: 1_000 }),
    ]);
  });

  it("is given up at its deadline where its rule says so, and tells that to whoever comes later", () => {
    const desk = new Desk().arrive(0, { onMissing: "abort" }).tick(1_000);
    const given = expect.objectContaining({ outcome: "aborted", missing: [1, 2] });
    expect(desk.ended()).toEqual([given]);
    expect(desk.arrive(1, { onMissing: "abort" }).tick(3_000).ended()).toEqual([given]);
  });

  it("is refused by field, value and way out where its ranks contradict each other or themselves", () => {
    const desk = new Desk().arrive(0);
    const before = desk.state.barriers;
    expect(desk.arrive(1, { timeoutMs: 5_000 }).refused()).toEqual([expect.stringMatching(/timeoutMs = 5000 .* 1000/)]);
    expect(desk.arrive(3).refused()).toEqual([expect.stringContaining("use 0 to 2")]);
    expect(desk.arrive(1, { weights: [1, 2] }).refused()).toEqual([expect.stringContaining("2 values for 3 ranks")]);
    expect(desk.arrive(1, { quorum: 4 }).refused()).toEqual([expect.stringContaining("use at most 3")]);
    expect(desk.arrive(1, { items: 3, done: [{ from: 2, to: 4 }] }).refused()).toEqual([
      expect.stringContaining("within items = 3"),
    ]);
    expect(desk.state.barriers).toEqual(before);
  });

  it("does not open with a deadline so short that each look at the clock would raise its alarm", () => {
    const short = { onMissing: "wait", timeoutMs: 999 };
    const desk = new Desk().arrive(0, short);
    expect(desk.refused()).toEqual(["timeoutMs = 999 is too short; use at least 1000"]);
    expect(bodiesOf(desk.tick(5_000).said, "alarm.raised")).toEqual([]);
    expect(desk.arrive(1, { onMissing: "wait", timeoutMs: 1_000 }).refused()).toEqual([]);
  });

  it("counts for nothing from anybody but an operator", () => {
    const desk = new Desk().arrive(0, {}, { role: "rollout" });
    expect(desk.state.barriers).toBeUndefined();
    expect(desk.state.dropped.stale).toBe(1);
  });

  it("begins anew with a higher epoch: who waits in the lower one is told, and nobody speaks in it again", () => {
    const desk = new Desk().arrive(0).arrive(1, { epoch: 1 });
    expect(bodiesOf(desk.said, "barrier.refused")).toEqual([
      expect.objectContaining({ epoch: 0, rank: 0, by: "", reason: "epoch 1 has begun" }),
    ]);
    expect(desk.arrive(2).refused()).toEqual([expect.stringContaining("epoch = 0 is over; the job is in epoch 1")]);
  });

  it("gets time anew from a controller that takes over, and loses nobody who was there", () => {
    const desk = new Desk().arrive(0, eject).arrive(1, eject);
    desk.hear({ type: "controller.elected", term: 2 }, 500_000);
    expect(desk.ended()).toEqual([]);
    expect(desk.arrive(2, eject).ended()).toEqual([expect.objectContaining({ outcome: "whole" })]);
  });

  it("is not opened anew once it is over and forgotten: whoever asks then is told, and nobody waits for it", () => {
    const desk = new Desk();
    for (let iteration = 1; iteration <= 70; iteration++)
      for (const rank of [0, 1, 2]) desk.arrive(rank, { iteration });
    expect(desk.arrive(1, { iteration: 7 }).tick(2_000).ended()).toEqual([
      expect.objectContaining({ outcome: "whole" }),
    ]);
    const before = desk.state.barriers;
    for (const past of [{ iteration: 6 }, { iteration: 7, phase: 3 }])
      expect(desk.arrive(1, past).refused()).toEqual([expect.stringMatching(/is over .* epoch 1/)]);
    expect(desk.state.barriers).toEqual(before);
    expect(desk.arrive(1, { iteration: 7, phase: 5 }).refused()).toEqual([]);
  });

  it("is kept within bounds: a few open ones, and the last that ended", () => {
    const desk = new Desk();
    for (let iteration = 1; iteration <= 200; iteration++)
      for (const rank of [0, 1, 2]) desk.arrive(rank, { iteration });
    expect(Object.keys(desk.state.barriers?.table ?? {})).toHaveLength(64);
    for (let iteration = 300; iteration < 316; iteration++) desk.arrive(0, { iteration });
    expect(desk.arrive(0, { iteration: 316 }).refused()).toEqual([expect.stringContaining("16 barriers are open")]);
  });

  it("waits ten minutes where nobody says how long, and is as good as finished where there is nothing to share out", () => {
    const desk = new Desk().arrive(0, { timeoutMs: undefined });
    expect(bodiesOf(desk.tick(599_999).said, "alarm.raised")).toEqual([]);
    expect(bodiesOf(desk.tick(600_000).said, "alarm.raised")).toHaveLength(1);
    desk.arrive(1, { timeoutMs: undefined }).arrive(2, { timeoutMs: undefined });
    expect(desk.ended()).toEqual([expect.objectContaining({ coverage: 1, shares: [] })]);
  });

  it("takes ranges up to the bounds of its items, empty ones too, and none that is turned round or goes beyond", () => {
    for (const [from, to] of [
      [0, 0],
      [5, 5],
      [0, 10],
      [10, 10],
    ])
      expect(new Desk().arrive(0, { items: 10, done: [{ from, to }] }).refused(), `${from} to ${to}`).toEqual([]);
    for (const [from, to] of [
      [0, 11],
      [6, 5],
    ])
      expect(new Desk().arrive(0, { items: 10, done: [{ from, to }] }).refused(), `${from} to ${to}`).toEqual([
        `done has ${from} to ${to}, which is no range within items = 10; use 0 ≤ from ≤ to ≤ items`,
      ]);
  });

  it("takes a rank that it went on without back only at phase 0, and only of a later iteration", () => {
    const desk = new Desk().arrive(0, eject).arrive(1, eject).tick(1_000);
    for (const refused of [
      { iteration: 1, phase: 0 },
      { iteration: 2, phase: 1 },
      { iteration: 0, phase: 0 },
    ])
      expect(desk.arrive(2, { ...eject, ...refused }).refused(), JSON.stringify(refused)).toEqual([
        "rank 2 was ejected in iteration 1; come back at phase 0 of iteration 2 or later",
      ]);
    expect(desk.arrive(2, { ...eject, iteration: 2, phase: 0 }).refused()).toEqual([]);
  });

  it("waits for ranks that are at another phase of the same iteration, and for those that were at one that is over", () => {
    const desk = new Desk().arrive(0);
    expect(desk.arrive(1, { phase: 5 }).arrive(2, { phase: 5 }).ended()).toEqual([]);
    expect(desk.arrive(0, { phase: 5 }).ended()).toEqual([expect.objectContaining({ arrived: [0, 1, 2] })]);
    expect(desk.arrive(0, { phase: 3 }).arrive(1, { phase: 3 }).ended()).toEqual([]);
  });

  it("does not count its time anew when a rank that came back alone comes again", () => {
    const two = { ranks: 2, quorum: 1, ...eject };
    const next = { ...two, iteration: 2, phase: 0 };
    const desk = new Desk().arrive(0, two).tick(1_000).arrive(1, next).arrive(1, next, { atMs: 1_500 });
    expect(bodiesOf(desk.tick(2_000).said, "alarm.raised")).toHaveLength(1);
  });

  it("says its end once as a fact and then as answers, of the one before as well, and asks for no look at the clock after that", () => {
    const desk = new Desk();
    for (const iteration of [1, 2]) for (const rank of [0, 1, 2]) desk.arrive(rank, { iteration });
    expect(desk.said.map(({ type }) => type)).toEqual(["announce"]);
    expect(isBarrierWaiting(desk.state)).toBe(false);
    desk.arrive(1, { iteration: 1 });
    expect(isBarrierWaiting(desk.state)).toBe(true);
    expect(desk.tick(2_000).said.map(({ type }) => type)).toEqual(["answer"]);
    expect(desk.ended()).toEqual([expect.objectContaining({ iteration: 1, outcome: "whole" })]);
    expect(isBarrierWaiting(desk.state)).toBe(false);
    expect(isBarrierWaiting(desk.arrive(0, { iteration: 3 }).state)).toBe(true);
  });

  it("says in its alarm whether it is to wait or too few are there", () => {
    const detailOf = (onMissing: string) =>
      bodiesOf(new Desk().arrive(0, { onMissing }).tick(1_000).said, "alarm.raised");
    expect(detailOf("wait")).toEqual([
      expect.objectContaining({ detail: expect.stringMatching(/it is to wait for all$/) }),
    ]);
    expect(detailOf("eject")).toEqual([
      expect.objectContaining({ detail: expect.stringMatching(/fewer than quorum = 2 are there$/) }),
    ]);
  });
});
