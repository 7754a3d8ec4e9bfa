import { describe, expect, it } from "vitest";
import type { HeardEvent } from "../../src/chaos/follow.ts";
import { type ResultInput, resultOf } from "../../src/chaos/result.ts";
import { chaosText } from "../../src/chaos/result-text.ts";
import { heard } from "./heard.ts";

const ledger = { admitted: 4, trained: 4, aborted: 0, quarantined: 0, pending: 0 };

function committed(step: number, digest: string, change: object = {}): HeardEvent {
  const body = { step, lineage: 0, groups: [`${step}.0`], ledger, sections: [{ name: "weights", digest }], ...change };
  return heard(1_000 * step, "step.committed", body);
}

const calm = [committed(1, "a"), committed(2, "b"), committed(3, "c")];

function input(events: readonly HeardEvent[], change: Partial<ResultInput["chaos"]> = {}): ResultInput {
  const audit = { records: 9, terms: 1, commits: 2, violations: [], replicasBitwiseEqual: true };
  return {
    ...{ job: "j", seed: 1, minutes: 1, isSync: true, quiet: calm, load: [0, 0], wallMs: 1 },
    chaos: {
      ...{
        plan: [],
        injections: [],
        deadAfterMs: 10_000,
        steadyMs: 5,
        stoppedAtMs: 4_000,
        exitCode: 0,
        audit,
        directory: "d",
      },
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

  it("is bad when a kind of the plan never happened, a fault was not recovered from, or an incident did not end", () => {
    const planned = { n: 1, atMs: 0, kind: "kill", target: { role: "rollout", index: 0 }, lastsMs: 0 } as const;
    const plan = [planned, { ...planned, n: 2, kind: "node", target: { role: "node", index: 0 } }] as const;
    const done = { ...planned, injectedAtMs: 1_500, id: "rollout-0", pid: 9 };
    const about = { id: "rollout-0", role: "rollout", incarnation: "i", evidence: "exit" };
    const lost = [
      heard(1_600, "member.died", about),
      heard(1_601, "groups.released", { holder: "rollout-0", items: ["9.0"] }),
    ];
    const result = resultOf(input([...calm.slice(0, 1), ...lost, ...calm.slice(1)], { plan, injections: [done] }));
    expect(result).toMatchObject({ planned: { "kill.rollout": 1, "node.node": 1 }, faults: { "kill.rollout": 1 } });
    expect(result.faults_found).toEqual([
      "planned and never done: node",
      "never recovered from #1 kill.rollout",
      "incidents that did not end: rollout.died of rollout-0 (exit)",
    ]);
  });

  it("does not ask for the end of what began when the job was told to stop", () => {
    const leaving = heard(5_000, "member.suspected", {
      id: "policy-0",
      role: "policy",
      incarnation: "i",
      evidence: "e",
    });
    expect(resultOf(input([...calm, leaving]))).toMatchObject({ ok: true, incidents: { total: 1, open: [] } });
  });

  it("counts every fault: recovered from, or harmless for a reason", () => {
    const reset = { n: 1, atMs: 0, kind: "reset", target: { role: "policy", index: 0 }, lastsMs: 0 } as const;
    const broker = { ...reset, n: 2, kind: "broker", target: { role: "broker", index: 0 } } as const;
    const hit = { injectedAtMs: 1_500, id: "policy-0", pid: 9 };
    const injections = [
      { ...reset, ...hit },
      { ...broker, ...hit, id: "nats-server" },
      { ...reset, ...hit, n: 3, id: null },
    ];
    const result = resultOf(input(calm, { plan: injections, injections }));
    expect(result).toMatchObject({
      ...{ ok: true, faults_total: 2, recovered: 1, unrecovered: [], incidents: { total: 0, open: [] } },
      harmless: { nobody: { "reset.policy": 1 }, unnoticed: { "reset.policy": 1 } },
    });
    expect(chaosText(result)).toContain("from 1; nothing to recover from: nobody (1 reset.policy), unnoticed");
    expect(chaosText(result)).toContain("measured / target");
  });
});
