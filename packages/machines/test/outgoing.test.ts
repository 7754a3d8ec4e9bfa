/** Whatever the controller says, however large the job is, is a message that its receivers take. */
import { flawOf, type Kind, pack, payloadBytesMax } from "@muster/protocol";
import { clipBody } from "@muster/protocol/internal";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import type { ControllerEffect, ControllerEvent } from "../src/controller/events.ts";
import type { ControllerState, Lease } from "../src/controller/state.ts";
import { groupsOf, memberOf, planWith, receiptOf, stepping, voteFor, working } from "./states.ts";

/** What is wrong with what is said, as its receivers and the broker see it. */
function flawsOf(effects: readonly ControllerEffect[]): readonly string[] {
  return effects.flatMap((effect) => {
    if (!("kind" in effect)) return [];
    const body = clipBody(effect.kind as Kind, effect.body as never) as object;
    const bytes = pack(body).byteLength;
    return flawOf(effect.kind, body) ?? (bytes > payloadBytesMax - 1_024 ? `${effect.kind}: ${bytes} bytes` : []);
  });
}

const saidOf = (effects: readonly ControllerEffect[], kind: Kind) =>
  effects.flatMap((effect) =>
    (effect.type === "command" || effect.type === "announce") && effect.kind === kind ? [effect.body as object] : [],
  );

const tick = (state: ControllerState, afterMs = 1): ControllerEvent => ({
  type: "controller.tick",
  atMs: state.nowMs + afterMs,
});

const ids = (letter: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${letter}${i}-${"x".repeat(36)}`);

describe("a controller of a large job", () => {
  it("orders a checkpoint from hundreds of trainers", () => {
    const plan = planWith({ steps: 3, checkpointReplicas: 2 });
    const state = working({ plan, members: [...ids("p", 200), ...ids("c", 2)] });
    const { effects } = control(state, tick(state));
    expect(saidOf(effects, "checkpoint.save")).toHaveLength(2);
    expect(flawsOf(effects)).toEqual([]);
  });

  it("ends a job in which hundreds hold each other up, and says whom it waited for", () => {
    const plan = planWith({ checkpointReplicas: 0 });
    const start = working({ plan, members: [...ids("p", 300), "r0"], patch: { wentBackAt: 4 } });
    const building = { ...start.mesh, state: "building" as const, built: [], dueAtMs: 1e9 };
    const progress = { atMs: 0, stage: 4, isShort: false };
    const state = { ...start, mesh: building, progress, nowMs: start.plan.health.progressMs * 5 };
    const { effects, state: after } = control(state, tick(state));
    expect(after.ending?.reason).toMatch(/^no progress at step 4; it waited for p0-x+, .* and 292 more$/);
    expect(saidOf(effects, "job.ended")).toHaveLength(1);
    expect(flawsOf(effects)).toEqual([]);
  });

  it("retries a step that hundreds did not vote on", () => {
    const state = stepping({}, { members: [...ids("p", 300), "r0"] });
    const { effects } = control(state, tick(state, 10_000));
    expect(saidOf(effects, "step.retried")).toHaveLength(1);
    expect(flawsOf(effects)).toEqual([]);
  });

  it("leases an evaluation of a million prompts to one sampler", () => {
    const state = working({ plan: planWith({ evalPrompts: 1_000_000, steps: 3 }), members: ["p0", "r0"] });
    const { effects } = control(state, tick(state));
    expect(saidOf(effects, "groups.lease").length).toBeGreaterThan(0);
    expect(flawsOf(effects)).toEqual([]);
  });

  it("says of every group of a dead sampler that it goes back, in pages", () => {
    const plan = planWith({ groupsPerStep: 4_096 });
    const start = working({ plan, members: ["p0", "p1", "r0"] });
    const groups = { ...groupsOf(4, 0, 4_096), queue: [] };
    const items = Array.from(
      { length: 4_096 },
      (_, index) => ({ purpose: "train", step: 4, index, attempt: 0 }) as const,
    );
    const lease = (from: number): Lease => ({ holder: "r0", items: items.slice(from, from + 1_024), dueAtMs: 1e9 });
    const state = {
      ...start,
      groups: { 4: groups },
      leases: { a: lease(0), b: lease(1_024), c: lease(2_048), d: lease(3_072) },
    };
    const verdict = { id: "r0", incarnation: "r0-i3", evidence: "gone", kind: "exit", silentMs: 0 } as const;
    const { effects } = control(state, { type: "verdict.dead", atMs: state.nowMs, ...verdict });
    const pages = saidOf(effects, "groups.released") as { readonly count: number; readonly items: readonly string[] }[];
    expect(pages.map(({ count }) => count)).toEqual([1_024, 1_024, 1_024, 1_024]);
    expect(new Set(pages.flatMap((page) => page.items)).size).toBe(4_096);
    expect(flawsOf(effects)).toEqual([]);
  });

  it("makes no mesh of more ranks than one message can name", () => {
    const start = working({ members: [...ids("p", 1_100), "r0"], plan: planWith({ groupsPerStep: 4 }) });
    const state = { ...start, mesh: { ...start.mesh, members: ids("p", 1_000), state: "broken" as const } };
    const { effects, state: after } = control(state, tick(state));
    expect(after.mesh.members).toHaveLength(1_024);
    expect(after.mesh.members.slice(0, 1_000)).toEqual(ids("p", 1_000));
    expect(flawsOf(effects.slice(0, 4))).toEqual([]);
    const again = control(after, tick(after));
    expect(saidOf(again.effects, "mesh.build")).toEqual([]);
  });

  it("says everything again after an election among thousands of leases", () => {
    const samplers = ids("r", 500);
    const plan = planWith({ groupsPerStep: 4_096 });
    const start = working({ plan, members: ["p0", "p1", ...samplers] });
    const leases = Object.fromEntries(
      Array.from({ length: 2_000 }, (_, index) => [
        `1-${index}`,
        {
          holder: samplers[index % 500] ?? "",
          items: [{ purpose: "train", step: 4, index, attempt: 0 } as const],
          dueAtMs: 1,
        },
      ]),
    );
    const state = { ...start, groups: { 4: { ...groupsOf(4, 0, 4_096), queue: [] } }, leases };
    const { effects } = control(state, { type: "controller.elected", atMs: 9, term: 2 });
    expect(saidOf(effects, "groups.lease")).toHaveLength(2_000);
    expect(flawsOf(effects)).toEqual([]);
  });

  it("commits a step of as many groups as there may be", () => {
    const plan = planWith({ groupsPerStep: 4_096 });
    const state = stepping({ p0: voteFor(4) }, { plan, members: ["p0", "r0"] });
    const { effects } = control(state, tick(state));
    expect(saidOf(effects, "step.committed")).toHaveLength(1);
    expect(flawsOf(effects)).toEqual([]);
  });
});

const text = fc.string({ unit: "binary", maxLength: 2_000 }).map((part) => part.repeat(3));
const sizes = fc.record({
  policies: fc.integer({ min: 1, max: 90 }),
  rollouts: fc.integer({ min: 0, max: 60 }),
  savers: fc.integer({ min: 0, max: 4 }),
  groups: fc.integer({ min: 1, max: 400 }),
  settled: fc.double({ min: 0, max: 1, noNaN: true }),
  evalPrompts: fc.constantFrom(0, 0, 100_000),
  stage: fc.integer({ min: 0, max: 4 }),
  meshState: fc.constantFrom("building", "ready", "broken"),
  isRunning: fc.boolean(),
});

/** A job in the middle of something, of any size. */
const jobs = fc.tuple(sizes, text).map(([size, cause]): ControllerState => {
  const plan = planWith({
    ...{ groupsPerStep: size.groups, evalPrompts: size.evalPrompts, checkpointReplicas: size.savers, steps: 4 },
    ...{ checkpointEverySteps: 1, evalEverySteps: 1 },
  });
  const members = [...ids("p", size.policies), ...ids("r", size.rollouts), ...ids("c", size.savers)];
  const start = working({ plan, members });
  const settled = size.isRunning ? size.groups : Math.floor(size.settled * size.groups);
  const groups = { 4: { ...groupsOf(4, settled, size.groups), receipts: receipts(settled) } };
  const votes = Object.fromEntries(
    ids("p", Math.floor(size.policies * size.settled)).map((id, i) => [
      id,
      voteFor(4, "a", i === 7 ? { vote: "abort", cause } : {}),
    ]),
  );
  return {
    ...start,
    groups,
    ledger: { ...start.ledger, admitted: size.groups * plan.groupSize },
    progress: { atMs: -plan.health.progressMs * size.stage, stage: Math.max(0, size.stage - 1), isShort: false },
    mesh: { ...start.mesh, state: size.meshState, built: [] },
    step: size.isRunning ? { ...start.step, state: "running", votes, dueAtMs: 2_000 } : start.step,
  };
});

const receipts = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => [index, receiptOf(4, index, { streamSeq: index >> 3 })]),
  );

/** What may come next: time, an election, a death, a report with texts of any length. */
const happenings = fc.oneof(
  fc.integer({ min: 1, max: 400_000 }).map((afterMs) => ({ kind: "tick" as const, afterMs })),
  fc.constant({ kind: "elected" as const }),
  fc.tuple(fc.nat(200), text).map(([which, evidence]) => ({ kind: "dead" as const, which, evidence })),
  fc.tuple(fc.nat(200), text).map(([which, cause]) => ({ kind: "failed" as const, which, cause })),
  text.map((reason) => ({ kind: "stop" as const, reason })),
);

function eventOf(
  state: ControllerState,
  happening: typeof happenings extends fc.Arbitrary<infer T> ? T : never,
): ControllerEvent {
  const members = Object.values(state.members);
  const atMs = state.nowMs;
  const {
    role,
    id: from,
    incarnation,
  } = members[("which" in happening ? happening.which : 0) % members.length] ?? memberOf("r0", 1);
  if (happening.kind === "tick") return tick(state, happening.afterMs);
  if (happening.kind === "elected") return { type: "controller.elected", atMs, term: state.term + 1 };
  if (happening.kind === "stop")
    return {
      type: "job.stop",
      atMs,
      from: "op",
      role: "operator",
      incarnation: "o",
      body: { reason: happening.reason },
    };
  if (happening.kind === "dead")
    return {
      type: "verdict.dead",
      atMs,
      id: from,
      incarnation,
      evidence: happening.evidence,
      kind: "silence",
      silentMs: 1,
    };
  const body = { lineage: 0, version: 3, cause: happening.cause };
  return { type: "weights.failed", atMs, from, role, incarnation, body };
}

describe("a controller of any job, whatever happens", () => {
  // Computes for seconds where other tests run beside it.
  it("says only what its receivers take", { timeout: 30_000 }, () => {
    fc.assert(
      fc.property(jobs, fc.array(happenings, { minLength: 1, maxLength: 6 }), (job, happened) => {
        let state = job;
        for (const happening of happened) {
          const next = control(state, eventOf(state, happening));
          expect(flawsOf(next.effects)).toEqual([]);
          state = next.state;
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("a job whose last weights can not be made durable", () => {
  it("does not end without saying so", () => {
    const state = working({ plan: planWith({ steps: 3, checkpointReplicas: 1 }), members: ["p0", "r0"] });
    const wanted = control(state, tick(state)).state;
    expect(wanted.ending).toBeNull();
    const { state: after, effects } = control(wanted, tick(wanted, wanted.plan.timing.checkpointMs));
    const what = "the weights of step 3 could not be made durable within 5000 ms: there is no checkpoint at all";
    expect(after.ending).toMatchObject({ outcome: "done", reason: `all steps are committed, but ${what}` });
    expect(saidOf(effects, "alarm.raised")).toEqual([{ alarm: "checkpoint", detail: what }]);
    expect(saidOf(effects, "job.ended")).toMatchObject([{ reason: `all steps are committed, but ${what}` }]);
  });
});
