import { describe, expect, it } from "vitest";
import { aimsOf, aimsText } from "../../src/chaos/aims.ts";
import { firstDifference, trainingOf, weightsHashAt } from "../../src/chaos/compare.ts";
import type { HeardEvent } from "../../src/chaos/follow.ts";
import { type Injection, measureRecoveries, spreadsOf } from "../../src/chaos/measure.ts";
import { outcomesOf } from "../../src/chaos/outcome.ts";
import { missedNodes, presentOf } from "../../src/chaos/steady.ts";
import { heard } from "./heard.ts";

const committed = (atMs: number, step: number, digest = `w${step}`, lineage = 0): HeardEvent =>
  heard(atMs, "step.committed", {
    ...{
      step,
      lineage,
      groups: [`${step}.0`],
      ledger: { admitted: 2, trained: 2, aborted: 0, quarantined: 0, pending: 0 },
    },
    sections: [
      { name: "weights", digest },
      { name: "optimizer", digest: "o" },
    ],
  });

const fault = (change: Partial<Injection>): Injection => ({
  ...{ n: 1, atMs: 0, kind: "kill", target: { role: "rollout", index: 0 }, lastsMs: 0 },
  ...{ injectedAtMs: 1_000, id: "rollout-0", pid: 9 },
  ...change,
});
const death = (atMs: number, id: string, role: string) =>
  heard(atMs, "member.died", { id, role, incarnation: "i", evidence: "e" });

describe("the recovery from a fault", () => {
  it("of a sampler is when all of its work has another holder", () => {
    const events = [
      death(1_050, "rollout-0", "rollout"),
      heard(1_051, "groups.released", { holder: "rollout-0", items: ["2.0", "2.1"] }),
      heard(1_060, "groups.resumed", { holder: "rollout-1", items: ["2.0"], tokens: 0 }),
      heard(1_400, "groups.resumed", { holder: "rollout-1", items: ["2.1"], tokens: 0 }),
    ];
    expect(measureRecoveries([fault({})], events)).toEqual([
      { n: 1, kind: "kill.rollout", detectMs: 50, recoverMs: 400, isLoss: true },
    ]);
    expect(measureRecoveries([fault({})], events.slice(0, 3))[0]?.recoverMs).toBeNull();
  });

  it("of a trainer is the next commit after its death is known", () => {
    const injection = fault({ target: { role: "policy", index: 0 }, id: "policy-0" });
    const events = [committed(1_010, 1), death(1_100, "policy-0", "policy"), committed(1_900, 2)];
    expect(measureRecoveries([injection], events)[0]).toMatchObject({ detectMs: 100, recoverMs: 900 });
  });

  it("is not that of a later fault of the same process", () => {
    const first = fault({ kind: "freeze", target: { role: "policy", index: 0 }, id: "policy-0" });
    const second = fault({
      n: 2,
      kind: "rack",
      injectedAtMs: 5_000,
      target: { role: "policy", index: 0 },
      id: "policy-1",
    });
    const events = [death(5_100, "policy-0", "policy"), committed(6_000, 1)];
    expect(measureRecoveries([first, second], events)).toMatchObject([
      { detectMs: null, recoverMs: null },
      { detectMs: 100, recoverMs: 1_000 },
    ]);
  });

  it("is told in order statistics, and in multiples of the dead time-out", () => {
    const recoveries = [100, 200, 300, 2_500].map((recoverMs, n) => ({
      n,
      kind: "kill.policy",
      detectMs: null,
      recoverMs,
      isLoss: true,
    }));
    expect(spreadsOf(recoveries, 1_000, ({ recoverMs }) => recoverMs)).toEqual({
      "kill.policy": {
        ...{ n: 4, p50_ms: 200, p90_ms: 2_500, p99_ms: 2_500, max_ms: 2_500 },
        ...{ p50_td: 0.2, p90_td: 2.5, p99_td: 2.5, max_td: 2.5 },
      },
    });
    expect(spreadsOf(recoveries, 1_000, ({ detectMs }) => detectMs)).toEqual({});
  });
});

describe("two runs", () => {
  it("are compared at every step that both committed", () => {
    const one = trainingOf([committed(0, 1), committed(1, 2), committed(2, 3, "x")]);
    const other = trainingOf([committed(0, 1), committed(1, 2), committed(2, 3), committed(3, 4)]);
    expect(firstDifference(one, other)).toBe(3);
    expect(firstDifference(other, other)).toBeNull();
    expect(weightsHashAt(other, 2)).toBe("w2");
  });

  it("are found out when a group was trained twice, or a step gave other weights in another lineage", () => {
    expect(trainingOf([committed(0, 1), committed(1, 1)]).doubled).toBe(1);
    const again = trainingOf([committed(0, 1), committed(1, 1, "other", 1)]);
    expect(again).toMatchObject({ doubled: 0, contradictions: [1] });
  });
});

describe("who is there", () => {
  it("is every replica that joined and neither left nor died; nodes are none", () => {
    const joined = (id: string, role: string) => heard(1, "member.joined", { id, role, incarnation: `i-${id}` });
    const events = [joined("node-0", "node"), joined("policy-0", "policy"), joined("rollout-0", "rollout")];
    expect(presentOf(events)).toBe(2);
    expect(presentOf([...events, heard(2, "member.died", { id: "policy-0", incarnation: "i-policy-0" })])).toBe(1);
  });

  it("is not a node that died, before it joins again; who left is not missed", () => {
    const node = { id: "node-0", role: "node", incarnation: "i-1" };
    const events = [heard(1, "member.joined", node), heard(2, "member.died", node)];
    expect(missedNodes(events)).toEqual(["node-0"]);
    expect(missedNodes([...events, heard(3, "member.joined", { ...node, incarnation: "i-2" })])).toEqual([]);
    expect(missedNodes([heard(1, "member.joined", node), heard(2, "member.left", node)])).toEqual([]);
  });
});

describe("a fault that nobody noticed", () => {
  it("has no time, though steps went on after it", () => {
    const cut = fault({ kind: "partition", target: { role: "host", index: 0 }, id: "far-policy", lastsMs: 900 });
    expect(measureRecoveries([cut], [committed(1_500, 3)])).toMatchObject([{ detectMs: null, recoverMs: null }]);
    const events = [death(3_000, "far-policy", "policy"), committed(2_000, 3), committed(3_400, 4)].sort(
      (a, b) => a.atMs - b.atMs,
    );
    expect(measureRecoveries([cut], events)).toMatchObject([{ detectMs: 2_000, recoverMs: 2_400 }]);
  });
});

describe("what became of a fault", () => {
  const joined = (atMs: number, id: string, role: string) =>
    heard(atMs, "member.joined", { id, role, incarnation: `i-${id}` });
  const said = (kind: "member.suspected" | "member.recovered", atMs: number, id: string) =>
    heard(atMs, kind, { id, role: "rollout", incarnation: `i-${id}`, evidence: "e" });
  const outcomeOf = (injection: Injection, events: readonly HeardEvent[], next: readonly Injection[] = []) =>
    outcomesOf([injection, ...next], events, measureRecoveries([injection, ...next], events))[0]?.outcome;
  const member = [joined(10, "rollout-0", "rollout")];
  const goesOn = committed(90_000, 7);

  it("is a recovery when the work of who died has another holder, and open when it never is", () => {
    const died = [...member, death(1_050, "rollout-0", "rollout")];
    const released = heard(1_051, "groups.released", { holder: "rollout-0", items: ["2.0"] });
    const resumed = heard(1_400, "groups.resumed", { holder: "rollout-1", items: ["2.0"], tokens: 0 });
    expect(outcomeOf(fault({}), [...died, released, resumed, goesOn])).toBe("recovered");
    expect(outcomeOf(fault({}), [...died, released, goesOn])).toBe("open");
  });

  it("is open when a member was killed and nobody missed it, or nothing was trained afterwards", () => {
    expect(outcomeOf(fault({}), [...member, goesOn])).toBe("open");
    expect(outcomeOf(fault({ kind: "reset" }), member)).toBe("open");
  });

  it("is none to recover from when there was nobody, or a stranger, or nobody noticed", () => {
    expect(outcomeOf(fault({ id: null }), [goesOn])).toBe("nobody");
    expect(outcomeOf(fault({}), [goesOn])).toBe("stranger");
    const out = heard(900, "member.died", { id: "rollout-0", role: "rollout", incarnation: "i-rollout-0" });
    expect(outcomeOf(fault({}), [...member, out, goesOn])).toBe("stranger");
    expect(outcomeOf(fault({ kind: "reset" }), [...member, goesOn])).toBe("unnoticed");
  });

  it("is a doubt when it was suspected and heard again, and open when it never was", () => {
    const cut = fault({ kind: "cut", lastsMs: 3_000 });
    const doubted = [...member, said("member.suspected", 3_000, "rollout-0")];
    expect(outcomeOf(cut, [...doubted, said("member.recovered", 4_100, "rollout-0"), goesOn])).toBe("doubted");
    expect(outcomeOf(cut, [...doubted, goesOn])).toBe("open");
  });

  it("is that of the next fault when that one hit the same process first", () => {
    const next = fault({ n: 2, kind: "node", injectedAtMs: 1_020, id: "node-0", target: { role: "node", index: 0 } });
    const died = death(1_100, "rollout-0", "rollout");
    expect(outcomeOf(fault({}), [...member, died, goesOn], [next])).toBe("overtaken");
  });
});

describe("the aims of recovery", () => {
  const times = { n: 3, p50_ms: 900, p90_ms: 1_500, p99_ms: 2_500, max_ms: 2_500 };
  const spread = { ...times, p50_td: 0.9, p90_td: 1.5, p99_td: 2.5, max_td: 2.5 };

  it("stand beside what was measured, in the time-out of the role that was frozen, and judge nothing that was not", () => {
    const recovery = { "kill.rollout": spread, "kill.policy": spread, "freeze.rollout": spread };
    const aims = aimsOf(recovery, { deadAfterMs: 1_000, stepMs: 300 });
    const of = (kind: string) => aims.filter((aim) => aim.kind === kind);
    expect(of("kill.rollout")).toMatchObject([{ share: "p99", measured_ms: 2_500, aim_ms: 2_000, met: false }]);
    expect(of("kill.policy")).toMatchObject([
      { share: "p50", measured_ms: 900, aim_ms: 1_300, met: true },
      { share: "p99", measured_ms: 2_500, aim_ms: 5_000, met: true },
    ]);
    expect(of("freeze.rollout")).toMatchObject([{ measured_ms: 2_500, aim_ms: 1_800, met: false }]);
    expect(of("freeze.policy")).toMatchObject([{ n: 0, measured_ms: null, aim_ms: 1_200, met: null }]);
    expect(aimsText(aims).join("\n")).toMatch(/sampler killed.* 3 +p99 +2500 +2000 +missed/);
  });
});
