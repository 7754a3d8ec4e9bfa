import { describe, expect, it } from "vitest";
import {
  applyFact,
  disturbed,
  emptyIncidentLog,
  ettrOf,
  type IncidentFact,
  type IncidentLog,
} from "../src/incidents.ts";

const after = (...facts: readonly IncidentFact[]): IncidentLog => facts.reduce(applyFact, emptyIncidentLog);

type Role = "policy" | "rollout" | "checkpoint";
const name = (id: string) => ({ id, role: id.split("-")[0] as Role, incarnation: `${id}-i1` });
const died = (id: string, atMs: number, evidence = "SIGKILL"): IncidentFact => ({
  kind: "member.died",
  body: { ...name(id), evidence },
  atMs,
});
const released = (holder: string, items: string[], atMs: number, tokensWasted = 0): IncidentFact => ({
  kind: "groups.released",
  body: { holder, count: items.length, reason: "died", items, tokensWasted },
  atMs,
});
const resumed = (holder: string, items: string[], atMs: number): IncidentFact => ({
  kind: "groups.resumed",
  body: { holder, items, tokens: 0 },
  atMs,
});
const committed = (step: number, atMs: number, groups: string[] = []): IncidentFact => ({
  kind: "step.committed",
  body: {
    ...{
      step,
      attempt: 1,
      epoch: 1,
      lineage: 0,
      version: step,
      sections: [],
      reward: 0,
      tokens: 1,
      staleness: 0,
      groups,
    },
    ...{ ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0, pending: 0 }, members: 1, stepMs: 1 },
    ...{ computeMs: 1, reduceMs: 1, gradNorm: 0, clipFraction: 0, entropy: 0, loss: 0, approxKl: 0 },
  },
  atMs,
});

describe("an incident", () => {
  it("of a trainer ends with the next commit", () => {
    const log = after(committed(1, 100), died("policy-0", 150), committed(2, 400));
    expect(log.incidents).toMatchObject([
      { kind: "policy.died", target: "policy-0", detectedAtMs: 150, recoveredAtMs: 400 },
    ]);
  });

  it("of a sampler ends when the last piece of its work has another holder", () => {
    const begun = [died("rollout-0", 100), released("rollout-0", ["4.0", "4.1", "eval.2"], 101)];
    expect(after(...begun, resumed("rollout-1", ["4.0"], 110)).incidents[0]?.recoveredAtMs).toBeNull();
    const log = after(...begun, resumed("rollout-1", ["4.0"], 110), resumed("rollout-2", ["eval.2", "4.1"], 120));
    expect(log.incidents[0]).toMatchObject({ kind: "rollout.died", recoveredAtMs: 120 });
    expect(log.open).toEqual({});
  });

  it("of a sampler without work is over when it is known", () => {
    expect(after(died("rollout-0", 100)).incidents[0]).toMatchObject({ detectedAtMs: 100, recoveredAtMs: 100 });
  });

  it("of a sampler ends when its work was trained, whoever did it", () => {
    const log = after(died("rollout-0", 100), released("rollout-0", ["4.0"], 101), committed(4, 300, ["4.0", "4.1"]));
    expect(log.incidents[0]?.recoveredAtMs).toBe(300);
  });

  it("counts the tokens that were drawn for nothing, of a death and of any other return", () => {
    const log = after(died("rollout-0", 100), released("rollout-0", ["4.0"], 101, 70), committed(4, 300, ["4.0"]));
    const later = applyFact(log, released("rollout-0", ["5.0"], 400, 5));
    expect(later.incidents).toMatchObject([{ tokensWasted: 70, recoveredAtMs: 300 }]);
    expect(later.tokensWasted).toBe(75);
    expect(later.open).toEqual({});
  });

  it("of a sampler does not wait for a group that was given up", () => {
    const quarantined: IncidentFact = {
      kind: "groups.quarantined",
      body: { item: "4.1", attempts: 3, holder: "rollout-0", failure: "engine_crash", reason: "died" },
      atMs: 102,
    };
    const log = after(died("rollout-0", 100), released("rollout-0", ["4.0", "4.1"], 101), quarantined);
    expect(log.incidents[0]?.recoveredAtMs).toBeNull();
    expect(applyFact(log, resumed("rollout-1", ["4.0"], 150)).incidents[0]?.recoveredAtMs).toBe(150);
  });

  it("of a checkpoint actor ends when it is a member again", () => {
    const log = after(died("checkpoint-0", 100), committed(1, 200), {
      kind: "member.joined",
      body: { ...name("checkpoint-0"), incarnation: "i2" },
      atMs: 900,
    });
    expect(log.incidents[0]?.recoveredAtMs).toBe(900);
  });

  it("is detected at the first silence, when silence was the evidence", () => {
    const suspected: IncidentFact = {
      kind: "member.suspected",
      body: { ...name("policy-0"), evidence: "no heartbeat for 3000 ms", silentMs: 3_000 },
      atMs: 3_000,
    };
    const log = after(suspected, died("policy-0", 10_000, "no heartbeat for 10000 ms"), committed(1, 11_000));
    expect(log.incidents).toMatchObject([
      { kind: "policy.died", detectedAtMs: 3_000, silentMs: 3_000, recoveredAtMs: 11_000 },
    ]);
    expect(log.counts).toEqual({ "member.suspected": 0, "policy.died": 1 });
    const back = after(suspected, { kind: "member.recovered", body: name("policy-0"), atMs: 4_000 });
    expect(back.incidents).toMatchObject([{ kind: "member.suspected", recoveredAtMs: 4_000 }]);
  });

  it("of a death leaves alone a silence that was over before, and that of another life", () => {
    const suspected = (incarnation: string, atMs: number): IncidentFact => ({
      kind: "member.suspected",
      body: { ...name("policy-0"), incarnation, evidence: "no heartbeat", silentMs: 9 },
      atMs,
    });
    const over = [
      suspected("policy-0-i1", 10),
      { kind: "member.recovered" as const, body: name("policy-0"), atMs: 20 },
    ];
    const log = after(...over, suspected("policy-0-i0", 30), died("policy-0", 40), committed(1, 50));
    expect(log.incidents).toMatchObject([
      { kind: "member.suspected", detectedAtMs: 10, recoveredAtMs: 20 },
      { kind: "member.suspected", detectedAtMs: 30, recoveredAtMs: null },
      { kind: "policy.died", detectedAtMs: 40, recoveredAtMs: 50 },
    ]);
    expect(log.counts).toEqual({ "member.suspected": 2, "policy.died": 1 });
  });

  it("is a new controller, and none is the first", () => {
    const started = (term: number): IncidentFact => ({
      kind: "job.started",
      body: { term, steps: 9, seed: 1 },
      atMs: term,
    });
    expect(after(started(1)).incidents).toEqual([]);
    const joined: IncidentFact = { kind: "member.joined", body: name("policy-0"), atMs: 1 };
    const two = after(started(1), joined, started(2)).incidents;
    expect(two).toMatchObject([{ kind: "controller.changed", recoveredAtMs: 2, silentMs: 0 }]);
    const other: IncidentFact = { kind: "member.joined", body: name("rollout-0"), atMs: 1 };
    const left: IncidentFact = { kind: "member.left", body: { ...name("policy-0"), reason: "drained" }, atMs: 2 };
    expect(after(joined, other, left, started(2)).incidents).toHaveLength(1);
  });

  it("is none where the last worker has left, however often that is said, and one where a worker came after that", () => {
    const started = (term: number): IncidentFact => ({
      kind: "job.started",
      body: { term, steps: 9, seed: 1 },
      atMs: term,
    });
    const joined: IncidentFact = { kind: "member.joined", body: name("policy-0"), atMs: 1 };
    const left: IncidentFact = { kind: "member.left", body: { ...name("policy-0"), reason: "drained" }, atMs: 2 };
    expect(after(joined, left, started(2))).toMatchObject({ workers: 0, isTakenUp: true, incidents: [] });
    expect(after(joined, left, left)).toMatchObject({ workers: 0 });
    expect(after(joined, left, left, joined, started(2)).incidents).toHaveLength(1);
  });

  it("is none that a job was interrupted and goes on: its workers had left, and what did not say so counts as gone in peace", () => {
    const started = (term: number): IncidentFact => ({
      kind: "job.started",
      body: { term, steps: 9, seed: 1 },
      atMs: term,
    });
    const joined = (id: string): IncidentFact => ({ kind: "member.joined", body: name(id), atMs: 1 });
    const left: IncidentFact = { kind: "member.left", body: { ...name("policy-0"), reason: "SIGTERM" }, atMs: 2 };
    const before = [started(1), joined("checkpoint-0"), joined("policy-0"), committed(1, 1), left];
    const again = [started(2), died("checkpoint-0", 5, "a new incarnation"), committed(2, 6)];
    const log = after(...before, ...again);
    expect(log.incidents).toEqual([]);
    expect(ettrOf(log)).toBe(1);
    expect(applyFact(log, died("checkpoint-0", 7)).incidents).toMatchObject([{ kind: "checkpoint.died" }]);
  });

  it("of a silence ends when the silent one has left", () => {
    const silence: IncidentFact = {
      kind: "member.suspected",
      body: { ...name("policy-0"), evidence: "no sign of life", silentMs: 900 },
      atMs: 100,
    };
    const left: IncidentFact = { kind: "member.left", body: { ...name("policy-0"), reason: "drained" }, atMs: 160 };
    expect(after(silence).incidents[0]?.recoveredAtMs).toBeNull();
    expect(after(silence, left).incidents).toMatchObject([{ kind: "member.suspected", recoveredAtMs: 160 }]);
    // Who has left disturbs no step any more.
    expect(after(silence, left, committed(1, 200)).isDisturbed).toBe(false);
  });

  it("is a failed attempt, unless a death explains it", () => {
    const retried: IncidentFact = { kind: "step.retried", body: { step: 3, attempt: 2, reason: "lost" }, atMs: 50 };
    expect(after(retried, retried).incidents).toHaveLength(1);
    expect(after(died("policy-1", 40), retried).incidents.map(({ kind }) => kind)).toEqual(["policy.died"]);
  });
});

describe("the log of incidents", () => {
  const member = <K extends "member.suspected" | "member.hung">(kind: K, id: string, atMs: number): IncidentFact => ({
    ...({ kind, body: { ...name(id), evidence: "no heartbeat" }, atMs } as IncidentFact),
  });
  const recovered = (id: string, atMs: number): IncidentFact => ({ kind: "member.recovered", body: name(id), atMs });
  const joined = (id: string, atMs = 1): IncidentFact => ({ kind: "member.joined", body: name(id), atMs });
  const left = (id: string, atMs = 2): IncidentFact => ({
    kind: "member.left",
    body: { ...name(id), reason: "asked" },
    atMs,
  });
  const retried = (step: number, atMs: number): IncidentFact => ({
    ...{ kind: "step.retried", body: { step, attempt: 2, reason: "lost" }, atMs },
  });
  const alarm = (what: string, atMs: number) =>
    ({ kind: "alarm.raised", body: { alarm: what, detail: "to step 4" }, atMs }) as IncidentFact;
  const started = (term: number): IncidentFact => ({ kind: "job.started", body: { term, steps: 9, seed: 1 }, atMs: 3 });
  const open = (log: IncidentLog) => log.incidents.filter((one) => one.recoveredAtMs === null).map((one) => one.target);

  it("is empty of a job to which nothing has happened", () => {
    const never = { firstCommitMs: null, lastCommitMs: null, productiveMs: 0, calm: [], isDisturbed: false };
    const none = { incidents: [], counts: {}, tokensWasted: 0, open: {}, telling: null, workers: 0, isTakenUp: false };
    expect(emptyIncidentLog).toEqual({ ...never, ...none });
    expect(ettrOf(emptyIncidentLog)).toBeNull();
    expect(after(started(1))).toEqual(emptyIncidentLog);
  });

  it("remembers the last 2,048 one by one and counts them all", () => {
    const log = after(...Array.from({ length: 2_050 }, (_, i) => member("member.hung", `rollout-${i}`, i)));
    expect([log.incidents.length, log.incidents[0]?.target, log.counts]).toEqual([
      ...[2_048, "rollout-2", { "member.hung": 2_050 }],
    ]);
  });

  it("counts trainers and samplers that come and go, and nobody else, and no doubt about them", () => {
    const workers = (...facts: readonly IncidentFact[]) => after(...facts).workers;
    expect(workers(joined("policy-0"), joined("rollout-0"), joined("checkpoint-0"))).toBe(2);
    expect(workers(joined("policy-0"), joined("rollout-0"), left("checkpoint-0"))).toBe(2);
    expect(workers(joined("policy-0"), member("member.suspected", "policy-0", 2), recovered("policy-0", 3))).toBe(1);
    expect(workers(joined("policy-0"), joined("rollout-0"), died("policy-0", 2))).toBe(1);
  });

  it("ends the doubt about one member, and no other incident of it, when that one is heard again", () => {
    const doubts = [member("member.suspected", "policy-0", 1), member("member.hung", "rollout-0", 2)];
    expect(open(after(...doubts, recovered("rollout-0", 3)))).toEqual(["policy-0"]);
    expect(open(after(...doubts, recovered("policy-0", 3)))).toEqual(["rollout-0"]);
    expect(open(after(died("policy-0", 1), left("policy-0")))).toEqual(["policy-0"]);
  });

  it("takes a hang for the first evidence of a death as well, in silence for no time", () => {
    const log = after(member("member.hung", "policy-0", 5), died("policy-0", 9));
    expect(log.incidents).toMatchObject([{ kind: "policy.died", detectedAtMs: 5, silentMs: 0 }]);
  });

  it("ends the death of one checkpoint actor or node when that one is back, and no trainer's", () => {
    const node = { id: "node-0", role: "node" as const, incarnation: "n" };
    const facts: readonly IncidentFact[] = [
      ...[died("checkpoint-0", 1), died("checkpoint-1", 1), died("policy-0", 1)],
      { kind: "member.died", body: { ...node, evidence: "SIGKILL" }, atMs: 1 },
    ];
    expect(open(after(...facts, joined("checkpoint-0"), joined("policy-0")))).toEqual([
      "checkpoint-1",
      "policy-0",
      "node-0",
    ]);
    const back: IncidentFact = { kind: "member.joined", body: node, atMs: 2 };
    expect(open(after(...facts, back))).not.toContain("node-0");
  });

  it("has a rollback and a failed attempt open until the next commit, and no other alarm", () => {
    const log = after(alarm("stragglers", 1), alarm("rollback", 2), retried(3, 3));
    expect(log.incidents).toMatchObject([
      { kind: "rollback", target: "job", evidence: "to step 4", detectedAtMs: 2, recoveredAtMs: null },
      { kind: "step.retried", target: "step 3", evidence: "lost", recoveredAtMs: null },
    ]);
    expect(open(applyFact(log, committed(3, 9)))).toEqual([]);
  });

  it("explains a failed attempt by a death of a trainer or the same step, while that is open, and by nothing else", () => {
    const kinds = (...facts: readonly IncidentFact[]) => after(...facts).incidents.map(({ kind }) => kind);
    expect(kinds(member("member.hung", "policy-0", 1), retried(3, 2))).toContain("step.retried");
    expect(kinds(died("policy-0", 1), committed(2, 2), retried(3, 3))).toContain("step.retried");
    expect(kinds(retried(3, 1), retried(4, 2))).toEqual(["step.retried", "step.retried"]);
  });

  it("says of a death alone what was drawn for nothing because of it", () => {
    const doubt = [member("member.suspected", "rollout-0", 1), recovered("rollout-0", 2)];
    const log = after(...doubt, died("rollout-1", 3), died("rollout-0", 4), released("rollout-0", ["4.0"], 4, 30));
    expect(log.incidents.map(({ tokensWasted }) => tokensWasted)).toEqual([0, 0, 30]);
    expect(open(log)).toEqual(["rollout-0"]);
    const { tokensWasted: _, ...untold } = released("rollout-0", ["4.0"], 4).body as { tokensWasted?: number };
    const silent = { kind: "groups.released", body: untold, atMs: 4 } as unknown as IncidentFact;
    expect(after(died("rollout-0", 4), silent).tokensWasted).toBe(0);
  });

  it("is disturbed by what no event tells, until the next commit", () => {
    const log = disturbed(after(committed(1, 0), committed(2, 100)));
    expect(log.isDisturbed).toBe(true);
    expect(applyFact(log, committed(3, 900))).toMatchObject({ isDisturbed: false, productiveMs: 200, calm: [100] });
  });
});

describe("effective training time", () => {
  it("begins with the first commit, and knows a calm step by the middle one of the last 256", () => {
    expect(after(committed(1, 100))).toMatchObject({
      productiveMs: 0,
      calm: [],
      firstCommitMs: 100,
      lastCommitMs: 100,
    });
    const twice = after(committed(1, 100), committed(2, 100), committed(3, 101));
    expect([twice.productiveMs, ettrOf(twice)]).toEqual([1, 1]);
    const steps = [0, 100, 300, 1_200].map((atMs, i) => committed(i + 1, atMs));
    const log = after(...steps, died("policy-0", 1_300), committed(5, 3_200));
    expect([log.calm, log.productiveMs]).toEqual([[100, 200, 900], 1_400]);
    const long = after(...Array.from({ length: 300 }, (_, i) => committed(i, (i * (i + 1)) / 2)));
    expect([long.calm.length, long.calm[0]]).toEqual([256, 44]);
  });

  const calm = [committed(1, 0), committed(2, 1_000), committed(3, 2_000), committed(4, 3_000)];

  it("is all of it without incidents, and unknown before two commits", () => {
    expect(ettrOf(after(...calm))).toBe(1);
    expect(ettrOf(after(committed(1, 0)))).toBeNull();
  });

  it("is less by what a step with an incident took longer than calm ones", () => {
    const log = after(...calm, died("policy-0", 3_100), committed(5, 6_000), committed(6, 7_000));
    expect(log.productiveMs).toBe(5_000);
    expect(ettrOf(log)).toBeCloseTo(5 / 7);
  });
});
