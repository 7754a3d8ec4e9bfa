import { describe, expect, it } from "vitest";
import { applyEvaluated } from "../src/controller/groups/apply-evaluation.ts";
import {
  dispatchGroups,
  isWorkWaiting,
  planAdmission,
  planEvaluation,
} from "../src/controller/groups/dispatch-groups.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, linesOf, planWith, reportFrom, working } from "./states.ts";

const limits = { ...planWith().limits, leasesPerRollout: 1, leaseGroupsMax: 1_024, chunkGroups: 2 };

function leasesOf(state: ControllerState): { to: string; steps: number[]; count: number }[] {
  return (dispatchGroups(state)?.effects ?? []).flatMap((effect) => {
    if (effect.type !== "command" || effect.kind !== "groups.lease") return [];
    const steps = effect.body.items.map((item) => (item.purpose === "train" ? item.step : -1));
    return [{ to: effect.to, steps: [...new Set(steps)], count: steps.length }];
  });
}

describe("admission", () => {
  it.each([0, 1, 2, 3, 4])("with staleness %i opens the next step and as many after it", (stalenessMax) => {
    const state = planAdmission(working({ plan: planWith({ stalenessMax, steps: 100 }) }))?.state;
    expect(Object.keys(state?.groups ?? {}).map(Number)).toEqual(
      Array.from({ length: stalenessMax + 1 }, (_, i) => 4 + i),
    );
    expect(state?.ledger.admitted).toBe((stalenessMax + 1) * 8);
    expect(imbalanceOf(ledgerOf(state as ControllerState))).toBe(0);
  });

  it("opens no step beyond the last", () => {
    const state = planAdmission(working({ plan: planWith({ stalenessMax: 4, steps: 5 }) }))?.state;
    expect(Object.keys(state?.groups ?? {})).toEqual(["4", "5"]);
  });

  it("opens nothing twice, nothing without weights, nothing at the end", () => {
    const open = working({ patch: { groups: { 4: groupsOf(4, 0) } } });
    expect(planAdmission(open)).toBeNull();
    expect(planAdmission(working({ patch: { weights: null } }))).toBeNull();
    const ending = { outcome: "stopped", reason: "", announced: false } as const;
    expect(planAdmission(working({ patch: { ending } }))).toBeNull();
  });
});

describe("a lease", () => {
  it.each([0, 1, 2, 3, 4])(
    "with staleness %i is for the oldest step that weights of the holder may still be trained in",
    (stalenessMax) => {
      const plan = planWith({ stalenessMax, steps: 100, limits });
      const open = planAdmission(working({ plan, version: 9 }))?.state as ControllerState;
      for (let lag = 0; lag <= stalenessMax + 1; lag++) {
        const state = withMember(open, "r0", { held: { lineage: 0, version: 9 - lag } });
        const expected = lag <= stalenessMax ? [10] : [];
        expect(
          leasesOf(state).flatMap(({ steps }) => steps),
          `${lag} versions behind`,
        ).toEqual(expected);
      }
    },
  );

  it("is for a later step when the next one is given out, as far as the bound allows", () => {
    const plan = planWith({ stalenessMax: 2, steps: 100, limits });
    const groups = { 10: { ...groupsOf(10, 0), queue: [] }, 11: groupsOf(11, 0), 12: groupsOf(12, 0) };
    const state = working({ plan, version: 9, patch: { groups } });
    expect(leasesOf(state)[0]?.steps).toEqual([11]);
    const behind = withMember(state, "r0", { held: { lineage: 0, version: 7 } });
    expect(leasesOf(behind)).toEqual([]);
  });

  it("names the version that its holder has", () => {
    const plan = planWith({ stalenessMax: 2, steps: 100, limits });
    const open = planAdmission(working({ plan, version: 9 }))?.state as ControllerState;
    const state = withMember(open, "r0", { held: { lineage: 0, version: 8 } });
    expect(bodiesOf(dispatchGroups(state)?.effects ?? [], "groups.lease")[0]).toMatchObject({ lineage: 0, version: 8 });
  });

  it("takes a fair share of what is left, so leases shrink towards the end and end at half a chunk", () => {
    const plan = planWith({ groupsPerStep: 64, limits: { ...limits, chunkGroups: 4 } });
    let state = planAdmission(working({ plan, members: ["p0", "r0", "r1"] }))?.state as ControllerState;
    const sizes: number[] = [];
    for (let change = dispatchGroups(state); change; change = dispatchGroups(state)) {
      sizes.push(...bodiesOf(change.effects, "groups.lease").map(({ items }) => items.length));
      state = { ...change.state, leases: {} };
    }
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(64);
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
    expect(sizes[0]).toBe(16);
    expect(Math.min(...sizes.slice(0, -1))).toBe(2);
  });

  it("is of one group where a chunk has no more than two", () => {
    const state = planAdmission(working({ plan: planWith({ limits }), members: ["p0", "r0", "r1"] }))?.state;
    expect(leasesOf(state as ControllerState).map(({ count }) => count)).toEqual([1, 1]);
  });

  it("is half of what is left for the only sampler", () => {
    const plan = planWith({ groupsPerStep: 64, limits });
    const state = planAdmission(working({ plan, members: ["p0", "r0"] }))?.state as ControllerState;
    expect(leasesOf(state).map(({ count }) => count)).toEqual([32]);
  });

  it("is never larger than the limit, and nobody has more of them than allowed", () => {
    const plan = planWith({ groupsPerStep: 400, limits: { ...limits, leaseGroupsMax: 8, leasesPerRollout: 2 } });
    const open = planAdmission(working({ plan, members: ["p0", "r0", "r1"] }))?.state as ControllerState;
    const change = dispatchGroups(open);
    expect(leasesOf(open).map(({ count }) => count)).toEqual([8, 8, 8, 8]);
    expect(linesOf(change?.effects ?? [])).toEqual(["r0", "r1", "r0", "r1"].map((id) => `${id} groups.lease`));
    expect(dispatchGroups(change?.state as ControllerState)).toBeNull();
  });

  describe("where a step goes out at once", () => {
    const two = { ...limits, leaseGroupsMax: 32, leasesPerRollout: 2, chunkGroups: 32 };
    const open = (groupsPerStep: number, patch: Partial<ControllerState> = {}): ControllerState => {
      const plan = planWith({ groupsPerStep, limits: two });
      const state = planAdmission(working({ plan, members: ["p0", "r0", "r1"] }))?.state as ControllerState;
      return { ...state, ...patch };
    };

    it("is the whole share of a sampler, which has no more room then", () => {
      const change = dispatchGroups(open(128));
      expect(leasesOf(open(128)).map(({ to, count }) => [to, count])).toEqual([
        ["r0", 64],
        ["r1", 64],
      ]);
      const { groups = {} } = change?.state ?? {};
      const again = { ...change?.state, groups: { ...groups, 4: groupsOf(4, 0, 8) } } as ControllerState;
      expect(dispatchGroups(again)).toBeNull();
    });

    it("is all of it for the only sampler", () => {
      const plan = planWith({ groupsPerStep: 64, limits: two });
      const state = planAdmission(working({ plan, members: ["p0", "r0"] }))?.state as ControllerState;
      expect(leasesOf(state).map(({ count }) => count)).toEqual([64]);
    });

    it("is as even as it can be", () => {
      const plan = planWith({ groupsPerStep: 128, limits: two });
      const state = planAdmission(working({ plan, members: ["p0", "r0", "r1", "r2"] }))?.state as ControllerState;
      expect(leasesOf(state).map(({ count }) => count)).toEqual([43, 43, 42]);
    });

    it("is no share of those whose weights are too old for the step", () => {
      const state = withMember(open(128), "r1", { held: { lineage: 0, version: 1 } });
      const left = { ...state, groups: { 4: groupsOf(4, 28, 128) } };
      expect(leasesOf(left).map(({ to, count }) => [to, count])).toEqual([["r0", 64]]);
    });

    it.each([
      [1_024, [1_024]],
      [1_025, [513, 256]],
    ])("of %i groups is as much as one message names", (groupsPerStep, expected) => {
      const plan = planWith({ groupsPerStep, limits: { ...two, leaseGroupsMax: 1_000 } });
      const state = planAdmission(working({ plan }))?.state as ControllerState;
      expect(leasesOf(state).map(({ count }) => count)).toEqual(expected);
    });

    it("leaves its share to a sampler that comes later", () => {
      const state = withMember(open(128), "r1", { held: { lineage: 0, version: 2 } });
      const first = dispatchGroups(state);
      expect(bodiesOf(first?.effects ?? [], "groups.lease").map(({ items }) => items.length)).toEqual([64]);
      const later = withMember(first?.state as ControllerState, "r1", { held: { lineage: 0, version: 3 } });
      expect(leasesOf(later).map(({ to, count }) => [to, count])).toEqual([["r1", 64]]);
    });

    it.each<[string, () => ControllerState]>([
      ["there is more of it than samplers have room for", () => open(256)],
      ["one lease is enough for a share", () => open(64)],
      ["a sampler was short of memory", () => open(128, { shortages: { r0: 1, r1: 1 } })],
      [
        "samplers hold something of it already",
        () => {
          const items = [{ purpose: "train" as const, step: 4, index: 0, attempt: 0 }];
          const held = (holder: string) => ({ holder, items, dueAtMs: 9_000 });
          return open(128, { leases: { "1-1": held("r0"), "1-2": held("r1") } });
        },
      ],
      [
        "less than everybody's share is left",
        () => {
          const state = open(128);
          return { ...state, groups: { 4: groupsOf(4, 40, 128) } };
        },
      ],
    ])("is a portion when %s", (_, stateOf) => {
      const sizes = leasesOf(stateOf()).map(({ count }) => count);
      expect(sizes.length).toBeGreaterThanOrEqual(2);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(32);
    });
  });

  it.each([
    ["is suspected", { health: "suspect" as const }],
    ["wants to leave", { health: "draining" as const }],
    ["holds nothing", { held: null }],
    ["holds another lineage", { held: { lineage: 1, version: 3 } }],
    ["has just handed work back", { retryAtMs: 1_001 }],
  ])("is not given to a replica that %s", (_, patch) => {
    const open = planAdmission(working())?.state as ControllerState;
    expect(dispatchGroups(withMember(open, "r0", patch))).toBeNull();
  });

  it("says what it resumes of work that an earlier holder did not finish", () => {
    const queue = [
      { index: 0, attempt: 0, last: "r9" },
      { index: 1, attempt: 0 },
    ];
    const fresh = dispatchGroups(
      working({ patch: { groups: { 4: { queue: [queue[1] as never], receipts: {}, quarantined: [] } } } }),
    );
    const again = dispatchGroups(working({ patch: { groups: { 4: { queue, receipts: {}, quarantined: [] } } } }));
    expect(bodiesOf(fresh?.effects ?? [], "groups.resumed")).toEqual([]);
    expect(bodiesOf(again?.effects ?? [], "groups.resumed").flatMap(({ items }) => items)).toEqual(["4.0"]);
  });

  it("has an id that no lease of any term had before", () => {
    const open = planAdmission(working({ members: ["p0", "r0", "r1"], patch: { leasesMade: 7, term: 3 } }))?.state;
    const ids = bodiesOf(dispatchGroups(open as ControllerState)?.effects ?? [], "groups.lease").map(
      ({ leaseId }) => leaseId,
    );
    expect(ids).toEqual(["3-8", "3-9"]);
  });
});

describe("an evaluation", () => {
  const plan = planWith({ evalPrompts: 130, evalEverySteps: 2, steps: 7 });
  const opened = (version: number) =>
    planEvaluation(working({ plan, version, patch: { evaluatedVersion: version - 1 } }))?.state.evaluation;

  it.each([
    [0, true],
    [1, false],
    [2, true],
    [3, false],
    [6, true],
    [7, true],
  ])("after step %i is due: %s", (version, isDue) => {
    expect(opened(version) !== undefined).toBe(isDue);
  });

  it("covers every prompt once", () => {
    expect(opened(2)?.queue).toEqual([
      { purpose: "eval", chunk: 0, from: 0, count: 64 },
      { purpose: "eval", chunk: 1, from: 64, count: 64 },
      { purpose: "eval", chunk: 2, from: 128, count: 2 },
    ]);
  });

  it("is leased by half of each sampler's share, so that leases shrink towards its end", () => {
    const large = planWith({ evalPrompts: 64 * 32, evalEverySteps: 2, steps: 7 });
    const patch = { evaluatedVersion: 3, groups: {} };
    const open = planEvaluation(working({ plan: large, version: 4, members: ["p0", "r0", "r1"], patch }));
    let state = open?.state as ControllerState;
    const sizes: number[] = [];
    for (let change = dispatchGroups(state); change; change = dispatchGroups(state)) {
      sizes.push(...bodiesOf(change.effects, "groups.lease").map(({ items }) => items.length));
      state = { ...change.state, leases: {} };
    }
    expect(sizes).toEqual([8, 6, 5, 4, 3, 2, 1, 1, 1, 1]);
  });

  it("is half of it for the only sampler, and no work that waits once all of it is leased", () => {
    const large = planWith({ evalPrompts: 64 * 8, evalEverySteps: 2, steps: 7 });
    const state = planEvaluation(working({ plan: large, version: 4, patch: { evaluatedVersion: 3 } }))?.state;
    expect(leasesOf(state as ControllerState).map(({ count }) => count)).toEqual([4, 2]);
    const { evaluation } = state ?? {};
    const waits = (queue: NonNullable<typeof evaluation>["queue"]) =>
      isWorkWaiting({ ...state, evaluation: { ...evaluation, queue } } as ControllerState);
    expect([waits(evaluation?.queue ?? []), waits([])]).toEqual([true, false]);
  });

  it("is leased in messages of 1,024 chunks at most", () => {
    const large = planWith({ evalPrompts: 64 * 4_096, evalEverySteps: 2, steps: 7 });
    const state = planEvaluation(working({ plan: large, version: 4, patch: { evaluatedVersion: 3 } }))?.state;
    expect(leasesOf(state as ControllerState).map(({ count }) => count)).toEqual([1_024, 1_024]);
  });

  it("counts nothing that was not answered", () => {
    const evaluation = opened(4) as NonNullable<ControllerState["evaluation"]>;
    const leases = { "1-1": { holder: "r0", items: evaluation.queue, dueAtMs: 9_000 } };
    const state = working({ plan, version: 4, patch: { evaluation: { ...evaluation, queue: [] }, leases } });
    const answered = evaluation.queue.reduce((now, { chunk, count: prompts }) => {
      const body = { leaseId: "1-1", version: 4, chunk, prompts, correct: 1 };
      return applyEvaluated(now, reportFrom(now, "r0", { kind: "evals.completed", body })).state;
    }, state);
    expect(bodiesOf(planEvaluation(answered)?.effects ?? [], "eval.finished")).toEqual([
      { version: 4, prompts: 130, correct: 3 },
    ]);
  });

  it("goes before groups, to replicas that hold exactly its version", () => {
    const evaluation = opened(4) as NonNullable<ControllerState["evaluation"]>;
    const state = working({ plan, version: 4, patch: { evaluation, groups: { 5: groupsOf(5, 0) } } });
    const items = bodiesOf(dispatchGroups(state)?.effects ?? [], "groups.lease").map(
      (lease) => lease.items[0]?.purpose,
    );
    expect(items[0]).toBe("eval");
    const behind = withMember(state, "r0", { held: { lineage: 0, version: 3 } });
    expect(dispatchGroups(behind)).toBeNull();
  });

  it("ends when all its chunks are settled, and says its result once", () => {
    const evaluation = { version: 4, queue: [], settled: [2, 0], attempts: {}, chunks: 3, prompts: 66, correct: 30 };
    const state = working({ plan, version: 4, patch: { evaluation } });
    expect(planEvaluation(state)).toBeNull();
    const done = planEvaluation({ ...state, evaluation: { ...evaluation, settled: [2, 0, 1], prompts: 130 } });
    expect(bodiesOf(done?.effects ?? [], "eval.finished")).toEqual([{ version: 4, prompts: 130, correct: 30 }]);
    expect(planEvaluation(done?.state as ControllerState)).toBeNull();
  });
});
