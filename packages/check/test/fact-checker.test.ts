/** Histories of public facts, and what is wrong with them. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { auditFacts, FactChecker, type PublicFact } from "../src/fact-checker.ts";

const rules = { seed: 7, stalenessMax: 1, batch: { groupsPerStep: 2, groupSize: 4, microShards: 1, minibatches: 1 } };
const sections = (digest: string) => [{ name: "weights" as const, bytes: 4, digest }];
const ledgerOf = (steps: number, of = steps) => ({
  admitted: of * 8,
  trained: steps * 8,
  aborted: 0,
  quarantined: 0,
  pending: (of - steps) * 8,
});

const started = (term: number): PublicFact => ({ kind: "job.started", term, body: { term, steps: 9, seed: 7 } });

/** A commit of a step as it should be; `other` is what is not. */
function commit(step: number, other: Partial<Body<"step.committed">> = {}): PublicFact {
  const times = { stepMs: 1, computeMs: 1, reduceMs: 1 };
  const numbers = {
    reward: 0,
    tokens: 8,
    staleness: 0,
    members: 1,
    gradNorm: 0,
    clipFraction: 0,
    entropy: 0,
    loss: 0,
    approxKl: 0,
  };
  const body = {
    ...{ step, attempt: 1, epoch: 1, lineage: 0, version: step, sections: sections(`d${step}`) },
    ...{ groups: [`${step}.0`, `${step}.1`], ledger: ledgerOf(step) },
    ...times,
    ...numbers,
    ...other,
  };
  return { kind: "step.committed", term: 1, body };
}

function alarm(name: string): PublicFact {
  return { kind: "alarm.raised", term: 1, body: { alarm: name, detail: "" } };
}

const givenUp = (item: string): PublicFact => ({
  kind: "groups.quarantined",
  term: 1,
  body: { item, attempts: 3, holder: "r0", failure: "engine_crash", reason: "" },
});
const skipped = (step: number, version: number): PublicFact => ({
  kind: "step.skipped",
  term: 1,
  body: { step, version, reason: "" },
});
const joined = (incarnation: string): PublicFact => ({
  kind: "member.joined",
  term: 1,
  body: { id: "r0", role: "rollout", incarnation },
});
const left = (incarnation: string): PublicFact => ({
  kind: "member.left",
  term: 1,
  body: { id: "r0", role: "rollout", incarnation, reason: "" },
});
const mesh = (epoch: number): PublicFact => ({ kind: "mesh.changed", term: 1, body: { epoch, members: ["p0"] } });
const kept = (step: number, version: number): PublicFact => ({
  kind: "checkpoint.kept",
  term: 1,
  body: { step, version, lineage: 0, path: "/c", manifestDigest: "m" },
});
const ended = (step: number, other: Partial<Body<"job.ended">> = {}): PublicFact => ({
  kind: "job.ended",
  term: 1,
  body: {
    outcome: "done",
    reason: "",
    step,
    lineage: 0,
    version: step,
    sections: sections(`d${step}`),
    ledger: ledgerOf(step),
    ...other,
  },
});

const changed = (fromStep: number, stalenessMax: number): PublicFact => ({
  kind: "job.changed",
  term: 1,
  body: { fromStep, settings: { stalenessMax }, before: { stalenessMax: 1 } },
});

const resized = (fromStep: number, groupsPerStep: number): PublicFact => ({
  kind: "job.changed",
  term: 1,
  body: { fromStep, settings: { groupsPerStep }, before: { groupsPerStep: 2 } },
});

/** Rules that a history breaks. */
function broken(...facts: readonly PublicFact[]): readonly string[] {
  return auditFacts(
    rules,
    facts.map((fact, atMs) => ({ ...fact, atMs })),
  ).map(({ invariant }) => invariant);
}

describe("public facts that fit together:", () => {
  const half = { ...ledgerOf(2), trained: 12, quarantined: 4 };
  it.each<[string, readonly PublicFact[]]>([
    ["steps, one after the other", [started(1), mesh(1), commit(1), kept(1, 1), commit(2), ended(2)]],
    [
      "another controller, another mesh, another life",
      [started(1), mesh(1), joined("a"), left("a"), started(2), mesh(2), joined("b")],
    ],
    [
      "steps of another size from where it was ordered",
      [
        commit(1),
        resized(2, 1),
        commit(2, { groups: ["2.0"], ledger: { ...ledgerOf(2), trained: 12, admitted: 12, pending: 0 } }),
      ],
    ],
    ["a group that was given up", [commit(1), givenUp("2.1"), commit(2, { groups: ["2.0"], ledger: half })]],
    [
      "a step that was skipped",
      [commit(1), skipped(2, 1), commit(3, { version: 2, ledger: { ...ledgerOf(3), trained: 16, quarantined: 8 } })],
    ],
    [
      "a job that says that it goes back",
      [commit(1), commit(2), alarm("rollback"), commit(2, { lineage: 1 }), commit(3, { lineage: 1 })],
    ],
    [
      "a job whose store was lost",
      [started(4), mesh(3), commit(1, { lineage: 1 }), alarm("store-lost"), started(2), mesh(1), commit(1)],
    ],
    [
      "steps that train on what is as old as the operator allowed from then on",
      [commit(1), changed(2, 2), commit(2, { staleness: 2 }), commit(3, { staleness: 2 })],
    ],
    ["a step that follows a checkpoint of the same version", [commit(1), skipped(2, 1), kept(2, 1)]],
  ])("%s", (_, facts) => {
    expect(broken(...facts)).toEqual([]);
  });
});

describe("public facts that do not:", () => {
  const short = { ...ledgerOf(2), trained: 12, quarantined: 4 };
  it.each<[string, string, readonly PublicFact[]]>([
    ["S2", "a term that was there already", [started(2), started(2)]],
    ["S33", "another seed", [{ kind: "job.started", term: 1, body: { term: 1, steps: 9, seed: 8 } }]],
    ["S6", "an epoch that was there already", [mesh(2), mesh(2)]],
    ["S8", "a life that was over", [joined("a"), left("a"), joined("a")]],
    ["S18", "a step before what the operator allowed", [changed(3, 2), commit(1), commit(2, { staleness: 2 })]],
    ["S16", "a step that ends twice", [commit(1), commit(2), commit(2)]],
    [
      "S16",
      "a group that is trained twice in a step",
      [commit(1, { groups: ["1.0", "1.0", "1.1"], ledger: { ...ledgerOf(1), admitted: 12, trained: 12 } })],
    ],
    [
      "S16",
      "a group of another step",
      [commit(1), commit(2, { groups: ["1.0", "2.0", "2.1"], ledger: { ...ledgerOf(2), admitted: 20, trained: 20 } })],
    ],
    ["S15", "a step that nothing is said of", [commit(1), commit(3)]],
    ["S15", "a group that nothing is said of", [commit(1), commit(2, { groups: ["2.0"], ledger: short })]],
    ["S15", "a ledger that does not balance", [commit(1, { ledger: { ...ledgerOf(1), pending: 1 } })]],
    [
      "S15",
      "a ledger that counts something else",
      [commit(1), commit(2, { ledger: { ...ledgerOf(2), trained: 15, pending: 1 } })],
    ],
    ["S18", "samples that are too old", [commit(1, { staleness: 2 })]],
    ["S22", "a version that does not follow", [commit(1), commit(2, { version: 3 })]],
    ["S22", "a skipped step of another version", [commit(1), skipped(2, 3)]],
    ["S22", "an end before the last step", [commit(1), commit(2), ended(1)]],
    ["S24", "a lineage that was left", [commit(1, { lineage: 1 }), commit(2)]],
    ["S25", "a checkpoint of another version", [commit(1), commit(2), kept(2, 1)]],
    ["S10", "an end with other weights", [commit(1), ended(1, { sections: sections("x") })]],
    ["L2", "an end with work left", [commit(1), ended(1, { ledger: ledgerOf(1, 2) })]],
  ])("%s: %s", (rule, _, facts) => {
    expect(broken(...facts)).toEqual([rule]);
  });
});

describe("where facts are missing", () => {
  /** What is violated by facts that lack some in their middle, or, where nothing is before, at their beginning. */
  function brokenBetween(before: readonly PublicFact[], after: readonly PublicFact[]): readonly string[] {
    const found: string[] = [];
    const verdicts = { require: (holds: boolean, rule: string) => void (holds || found.push(rule)) };
    const checker = new FactChecker(verdicts, rules, before.length > 0);
    for (const fact of before) checker.take(fact);
    if (before.length > 0) checker.cut();
    for (const fact of after) checker.take(fact);
    return found;
  }
  const lack = (step: number, trained: number): PublicFact =>
    commit(step, { groups: [`${step}.0`], ledger: { ...ledgerOf(step), trained, quarantined: step * 8 - trained } });

  it.each([[[commit(1)]], [[]]])("groups that they may have given up are not asked for, later ones are", (before) => {
    // A job samples one step ahead here, so that in the gap groups of steps 2, 3 and 4 could be given up.
    expect(brokenBetween(before, [commit(3), lack(4, 28)])).toEqual([]);
    expect(brokenBetween(before, [commit(3), commit(4), lack(5, 36)])).toEqual(["S15"]);
  });

  it("what was said before them holds", () => {
    expect(brokenBetween([commit(1), givenUp("5.1")], [commit(3), commit(4), lack(5, 36)])).toEqual([]);
  });
});
