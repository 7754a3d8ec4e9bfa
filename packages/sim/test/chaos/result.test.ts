import { describe, expect, it } from "vitest";
import type { HeardEvent } from "../../src/chaos/follow.ts";
import { chaosText, type ResultInput, resultOf } from "../../src/chaos/result.ts";

const ledger = { admitted: 4, trained: 4, aborted: 0, quarantined: 0, pending: 0 };

function committed(step: number, digest: string, change: object = {}): HeardEvent {
  const body = { step, lineage: 0, groups: [`${step}.0`], ledger, sections: [{ name: "weights", digest }], ...change };
  return { kind: "step.committed", body, atMs: 1_000 * step } as unknown as HeardEvent;
}

const calm = [committed(1, "a"), committed(2, "b"), committed(3, "c")];

function input(events: readonly HeardEvent[], change: Partial<ResultInput["chaos"]> = {}): ResultInput {
  const audit = { records: 9, terms: 1, commits: 2, violations: [], replicasBitwiseEqual: true };
  return {
    ...{ job: "j", seed: 1, minutes: 1, isSync: true, quiet: calm, load: [0, 0], wallMs: 1 },
    chaos: {
      ...{ plan: [], injections: [], deadAfterMs: 10_000, steadyMs: 5, exitCode: 0, audit, directory: "d" },
      events,
      ...change,
    },
  };
}

describe("the result of a chaos run", () => {
  it("is good when every step has the digest of the quiet run's", () => {
    const result = resultOf(input(calm.slice(0, 2)));
    expect(result).toMatchObject({ ok: true, faults_found: [], steps: 2, weights_hash: "b", hash_of_quiet_run: "b" });
    expect(chaosText(result)).toContain("nothing lost, nothing trained twice, nothing different");
  });

  it("names the first step with other weights", () => {
    const result = resultOf(input([committed(1, "a"), committed(2, "x")]));
    expect(result).toMatchObject({ ok: false, first_difference: 2 });
    expect(chaosText(result)).toContain("the weights differ from the quiet run's, first at step 2");
  });

  it("sees a group that was trained twice, and one that is in no column of the ledger", () => {
    const twice = resultOf(input([committed(1, "a"), committed(2, "b", { groups: ["1.0"] })]));
    expect(twice.faults_found).toEqual(["1 groups were trained twice"]);
    const gone = resultOf(input([committed(1, "a", { ledger: { ...ledger, trained: 3 } })]));
    expect(gone.faults_found).toEqual(["1 trajectories are in no column of the ledger"]);
  });

  it("is bad when the job did not come to rest, ended badly, or broke an invariant", () => {
    const audit = {
      ...{ records: 9, terms: 1, commits: 2, replicasBitwiseEqual: false },
      violations: [{ invariant: "S10", detail: "two digests", atMs: 3 }],
    };
    expect(resultOf(input(calm, { steadyMs: null, exitCode: 1, audit })).faults_found).toEqual([
      "replicas did not hold the same bytes",
      "1 invariants did not hold",
      "the job was not steady in time after the last fault",
      "the run ended with code 1",
    ]);
  });

  it("does not compare weights of a job whose order of sampling is free", () => {
    expect(resultOf({ ...input([committed(1, "z")]), isSync: false }).ok).toBe(true);
  });
});
