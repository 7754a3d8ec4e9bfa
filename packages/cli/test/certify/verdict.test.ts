/** What two runs prove, and what they do not. */
import type { Contradiction } from "@muster/engine";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { type Proof, promised, type RunFacts, verdictOf } from "../../src/certify/verdict.ts";

type Commit = Body<"step.committed">;

const ledger = { admitted: 8, trained: 8, aborted: 0, quarantined: 0, pending: 0 };
const commit = (step: number, other: Partial<Commit> = {}) =>
  ({
    ...{ step, lineage: 0, groups: [`${step}.0`], tokens: 9, reward: 0.5 },
    sections: [{ name: "weights", bytes: 4, digest: `d${step}` }],
    ...other,
  }) as Commit;
const sample = (step: number, other: object = {}) =>
  ({
    ...{ step, lineage: 0, group: `${step}.0`, sample: 0, prompt: "1+1=", completion: "2", tokens: 1 },
    ...{ status: "completed", ...other },
  }) as RunFacts["samples"][number];

function facts(other: Partial<RunFacts> = {}): RunFacts {
  return {
    steps: new Map([1, 2].map((step) => [step, commit(step)])),
    samples: [sample(1), sample(2)],
    ended: { outcome: "done", ledger, reason: "" } as unknown as RunFacts["ended"],
    trainers: [],
    violations: [],
    ...other,
  };
}

const judged = (proof: Partial<Proof> = {}) =>
  verdictOf({ quiet: facts(), killed: facts(), contradictions: [], missing: [], ...proof });
const second = (other: Partial<Commit>) =>
  facts({
    steps: new Map([
      [1, commit(1)],
      [2, commit(2, other)],
    ]),
  });

describe("a proof", () => {
  it("of two equal runs is that of the same weights", () => {
    expect(judged()).toMatchObject({ level: "L3", levels: Array(4).fill({ state: "proven" }) });
  });

  it.each<[string, string | null, Partial<Proof>, string]>([
    ["other weights", "L2", { killed: second({ sections: [] }) }, "step 2 ended with other weights"],
    ["other tokens", "L1", { killed: second({ tokens: 10 }) }, "step 2 was sampled otherwise"],
    ["another response", "L1", { killed: facts({ samples: [sample(2, { completion: "3" })] }) }, "answered otherwise"],
    ["another prompt", "L0", { killed: facts({ samples: [sample(2, { prompt: "1+2=" })] }) }, "had another prompt"],
    ["a group that was given up", "L0", { killed: second({ groups: [] }) }, "trained other groups"],
    ["a step that one has", "L0", { killed: facts({ steps: new Map([[1, commit(1)]]) }) }, "in one of the runs only"],
    ["a rule that was broken", null, { killed: facts({ violations: ["S16: twice"] }) }, "S16: twice"],
    ["a run without an end", null, { quiet: facts({ ended: null }) }, "the quiet run did not end well"],
    ["a kill that was not done", null, { missing: ["a kill of job"] }, "raise --steps"],
  ])("with %s proves %s", (_, level, proof, says) => {
    const verdict = judged(proof);
    expect(verdict.level).toBe(level);
    const first = verdict.levels.find(({ state }) => state === "not proven");
    expect(first?.how).toContain(says);
  });

  it("says how much it compared, and proves nothing of responses where nothing of both runs is there", () => {
    const some = judged({ killed: facts({ samples: [sample(2)] }) });
    expect(some.levels[1]?.how).toContain("the same 1 of 2 prompts");
    expect(some.levels[2]?.how).toContain("the same 1 of 2 responses word by word");
    const none = judged({ killed: facts({ samples: [] }) });
    expect(none.level).toBe("L0");
    expect(none.levels[1]).toMatchObject({
      state: "not proven",
      how: expect.stringContaining("no sample of both runs"),
    });
  });

  it("compares what stands: a step that was computed again in another lineage counts once, as it is now", () => {
    const again = facts({
      steps: new Map([
        [1, commit(1, { lineage: 1 })],
        [2, commit(2, { lineage: 1 })],
      ]),
      samples: [sample(1, { completion: "lost" }), sample(1, { lineage: 1 }), sample(2, { lineage: 1 })],
    });
    expect(judged({ killed: again }).level).toBe("L3");
  });

  it("is bounded by what stands against a level, even where both runs were equal", () => {
    const contradictions: Contradiction[] = [{ level: "L2", keys: ["job.mode"], text: "async" }];
    expect(promised(contradictions)).toBe("L1");
    const verdict = judged({ contradictions });
    expect(verdict.level).toBe("L1");
    expect(verdict.levels[3]).toMatchObject({
      state: "contradicted",
      how: expect.stringContaining("still not promised: async"),
    });
  });
});
