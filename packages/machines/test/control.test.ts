import { type ControllerEffect, type ControllerEvent, controllerLogic } from "@muster/machines/controller";
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import { type ControllerState, initialControllerState, withMember } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, linesOf, memberOf, planWith, reportFrom, stepping, voteFor, working } from "./states.ts";

const tick = (atMs: number): ControllerEvent => ({ type: "controller.tick", atMs });

describe("the controller's logic", () => {
  it("gives back the same state for a tick that changes nothing, so that it needs no record", () => {
    const { state } = control(working({ patch: { groups: { 4: { ...groupsOf(4, 0), queue: [] } } } }), tick(1_100));
    expect(control(state, tick(1_200)).state).toBe(state);
  });

  it.each([{ members: [] }, { members: ["r0"] }, { members: ["p0", "p1"] }])(
    "needs no record either while it waits for who is missing: $members are there",
    (setting) => {
      const { state } = control(working(setting), tick(20_000));
      const settled = control(state, tick(20_100)).state;
      expect(control(settled, tick(20_200)).state).toBe(settled);
    },
  );

  it("keeps the time in a record now and then while somebody may hang: a successor knows what is left of each wait", () => {
    const { state } = control(working(), tick(1_100));
    const { commandMs } = state.plan.timing;
    expect(control(state, tick(1_099 + commandMs)).state).toBe(state);
    expect(control(state, tick(1_100 + commandMs)).state.nowMs).toBe(1_100 + commandMs);
  });

  it("moves its time on with every word that is no tick, also where that changes nothing", () => {
    const { state } = control(working(), tick(1_100));
    const body = { leaseId: "9-9", items: [] };
    const said = control(state, reportFrom(state, "r0", { kind: "groups.saved", body, atMs: 1_150 }));
    expect([said.state.nowMs, said.effects]).toEqual([1_150, []]);
    const late = control(
      { ...said.state, leases: {} },
      reportFrom(state, "r0", { kind: "groups.saved", body, atMs: 1_175 }),
    );
    expect(control(late.state, tick(1_180)).state).toBe(late.state);
  });

  it("tells the operator, again and again, that it makes no progress for twice as long as anything may take", () => {
    const { gatherMs, stepMs, leaseMs, checkpointMs } = planWith().timing;
    const first = controllerLogic.init(planWith());
    const timers = (step: ReturnType<typeof controllerLogic.init>) =>
      step.effects.flatMap((effect) => (effect.type === "timer.start" ? effect : []));
    const [timer] = timers(first);
    expect(timer?.delayMs).toBe(2 * Math.max(gatherMs, stepMs, leaseMs, checkpointMs));
    const second = controllerLogic.step(first.snapshot, timer?.event as ControllerEvent);
    expect(bodiesOf(second.effects as ControllerEffect[], "alarm.raised")).toEqual([
      { alarm: "progress", detail: "no progress: the job is gathering at step 1" },
    ]);
    expect(timers(second)).toEqual([timer]);
  });

  it("never lets its time go back", () => {
    const state = working();
    expect(control(state, tick(500)).state.nowMs).toBe(1_000);
  });

  it.each(["replica.draining", "mesh.built", "groups.completed", "weights.held"] as const)(
    "tells a sender of %s that is no member to come back as a new life, and believes nothing of it",
    (kind) => {
      const state = working();
      for (const incarnation of ["r0-i1", "unknown"]) {
        const event = {
          type: kind,
          atMs: 1_000,
          from: "r0",
          role: "rollout",
          incarnation,
          body: { epoch: 2 },
        } as unknown as ControllerEvent;
        const change = control(state, event);
        expect(linesOf(change.effects)).toContain("r0 replica.fenced");
        expect(change.state.members).toEqual(state.members);
      }
    },
  );

  it.each(["job.stop", "replica.drain", "process.exited"] as const)("takes %s from an operator only", (kind) => {
    const { state } = control(working(), tick(1_100));
    const body = { reason: "x", id: "p0", host: "h", pid: 1, code: 0, signal: null };
    const event = {
      type: kind,
      atMs: 1_100,
      from: "r0",
      role: "rollout",
      incarnation: "r0-i3",
      body,
    } as unknown as ControllerEvent;
    expect(control(state, event).effects).toEqual([]);
    expect(control(state, { ...event, role: "operator" } as ControllerEvent).state).not.toEqual(state);
  });

  it("keeps the first reason for which the job ends", () => {
    const stop = (reason: string): ControllerEvent => ({
      type: "job.stop",
      atMs: 1_000,
      from: "ops",
      role: "operator",
      incarnation: "o",
      body: { reason },
    });
    const once = control(working(), stop("enough")).state;
    expect(control(once, stop("again")).state.ending?.reason).toBe("enough");
  });

  it("does nothing any more once it has stopped", () => {
    const state = working({ patch: { stopped: true } });
    expect(control(state, tick(9_000))).toEqual({ state, effects: [] });
  });

  it("decides on the tables alone: the order in which votes arrive does not matter", () => {
    const votes = [
      ["p0", "a"],
      ["p1", "a"],
      ["p2", "b"],
    ] as const;
    const run = (order: readonly number[]) => {
      const start = stepping({}, { members: ["p0", "p1", "p2", "r0"] });
      return order.reduce((state, index) => {
        const [id, flavour] = votes[index] ?? ["p0", "a"];
        const { stats: _, cause: __, missing: ___, sketch: ____, ...vote } = voteFor(4, flavour);
        const body = { step: 4, attempt: 1, epoch: 2, ...vote, sections: [...vote.sections] };
        return control(state, reportFrom(start, id, { kind: "step.voted", body })).state;
      }, start);
    };
    for (const order of [
      [1, 0, 2],
      [2, 1, 0],
      [0, 2, 1],
    ]) {
      const { weights, members, step, ledger } = run(order);
      const first = run([0, 1, 2]);
      expect({ weights, members, step, ledger }).toEqual({
        weights: first.weights,
        members: first.members,
        step: first.step,
        ledger: first.ledger,
      });
    }
  });
});

describe("a new term", () => {
  const ticks = (fromMs: number, forMs: number): ControllerEvent[] =>
    Array.from({ length: forMs / 250 }, (_, i) => ({ type: "controller.tick", atMs: fromMs + 250 * (i + 1) }));
  const elected: ControllerEvent = { type: "controller.elected", atMs: 40, term: 2 };

  it("begins with its own clock, and every wait goes on with the time that was left", () => {
    const base = working();
    const { commandMs } = base.plan.timing;
    const leases = {
      new: { holder: "r0", items: [], dueAtMs: base.nowMs + 9_000 },
      old: { holder: "r0", items: [], dueAtMs: base.nowMs - 1 },
    };
    const queue = [{ index: 9, attempt: 1, dueAtMs: base.nowMs + 70 }];
    const groups = { 4: { ...groupsOf(4, 0), queue } };
    const late = withMember({ ...base, leases, groups }, "r0", {
      retryAtMs: base.nowMs + 80,
      recoveries: [base.nowMs],
    });
    const { state } = control(late, elected);
    expect(state).toMatchObject({ term: 2, nowMs: 40 });
    expect(state.leases.new?.dueAtMs).toBe(40 + 9_000);
    // What nobody listened to may have been said meanwhile: it is heard before its time is over.
    expect(state.leases.old?.dueAtMs).toBe(40 + commandMs);
    expect(state.groups[4]?.queue[0]?.dueAtMs).toBe(40 + 70);
    expect(state.members.r0).toMatchObject({ retryAtMs: 40 + 80, recoveries: [40] });
  });

  it.each([
    ["p0: no vote on step 4 in time", stepping({}, { members: ["p0", "p1", "r0"] })],
    [
      "r0: weights.pull unanswered 3 times",
      withMember(working({ version: 4 }), "r0", {
        held: null,
        order: { kind: "weights.pull", lineage: 0, version: 4, dueAtMs: 3_000 },
      }),
    ],
  ])("gives no time to what hangs, however often controllers change: %s", (end, hanging) => {
    let state: ControllerState = hanging;
    const said: ControllerEffect[] = [];
    for (let term = 2; term < 20; term++)
      for (const event of [{ ...elected, atMs: term, term }, ...ticks(term, 1_500)]) {
        const change = control(state, event);
        state = change.state;
        said.push(...change.effects);
      }
    const ends = bodiesOf(said, "member.died").map(({ id, evidence }) => `${id}: ${evidence}`);
    expect(ends).toContain(end);
  });

  it("admits everybody again and repeats leases, meshes and orders that may never have left", () => {
    const item = { purpose: "train" as const, step: 4, index: 0, attempt: 0 };
    const leases = { "1-1": { holder: "r0", items: [item], dueAtMs: 9_000 } };
    const groups = { 4: { ...groupsOf(4, 0), queue: [] } };
    const base = working({ patch: { leases, groups } });
    const pulling = withMember(base, "p1", {
      held: null,
      order: { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9_000 },
    });
    const building = { ...pulling, mesh: { ...pulling.mesh, members: ["p0"], state: "building" as const, built: [] } };
    const lines = linesOf(control(building, elected).effects);
    expect(lines[0]).toBe("! job.started");
    expect(lines.filter((line) => line.startsWith("admit"))).toEqual(["admit p0", "admit p1", "admit r0"]);
    // A member hears that it is admitted before it hears anything else.
    expect(lines.indexOf("r0 groups.lease")).toBeGreaterThan(lines.indexOf("admit r0"));
    expect(lines).toEqual(expect.arrayContaining(["r0 groups.lease", "p0 mesh.build", "p1 weights.pull"]));
    const lease = bodiesOf(control(building, elected).effects, "groups.lease")[0];
    expect(lease).toMatchObject({ leaseId: "1-1", items: [item] });
  });

  it("repeats a running step to those whose vote it does not have, and to no other life", () => {
    const running = stepping({ p0: voteFor(4) }, { members: ["p0", "p1", "p2", "r0"] });
    expect(linesOf(control(running, elected).effects).filter((line) => line.includes("step.run"))).toEqual([
      "p1 step.run",
      "p2 step.run",
    ]);
    const replaced = { ...running, members: { ...running.members, p2: memberOf("p2", 9) } };
    expect(linesOf(control(replaced, elected).effects)).not.toContain("p2 step.run");
  });

  it("trusts whom the former controller suspected: its own failure detector would never take a suspicion back", () => {
    const suspecting = withMember(withMember(working(), "r0", { health: "suspect" }), "p1", { health: "draining" });
    const { state, effects } = control(suspecting, elected);
    expect(state.members.r0?.health).toBe("healthy");
    expect(state.members.p1?.health).toBe("draining");
    expect(linesOf(effects)).toContain("! member.recovered");
  });

  it("of a job that has not begun admits nobody and waits", () => {
    const { effects } = control(initialControllerState(planWith()), elected);
    expect(linesOf(effects)).toEqual(["! job.started"]);
  });
});
