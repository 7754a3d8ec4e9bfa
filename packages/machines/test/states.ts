/** Controller states to start a test from. */
import type {
  ControllerEffect,
  ControllerEvent,
  ControllerPlan,
  ControllerState,
  Member,
} from "@muster/machines/controller";
import type { Body, GroupReceipt, Kind, KindOf, ReplicaRole, Section } from "@muster/protocol";
import type { ReportOf } from "../src/controller/events.ts";
import { initialControllerState, type StepGroups, type Vote } from "../src/controller/state.ts";
import { plan as jobPlan } from "./plans.ts";

/** A plan of four groups a step; whatever a test is about goes on top. */
export function planWith(patch: Partial<ControllerPlan> = {}): ControllerPlan {
  const rule = { action: "quarantine", attempts: 3, backoffMs: 0 } as const;
  const failure = { ...jobPlan.failure, engineCrash: rule, oom: rule };
  return { ...jobPlan, failure, groupsPerStep: 4, groupSize: 2, evalPrompts: 0, checkpointEverySteps: 0, ...patch };
}

/** Sections of a version. */
export function sectionsOf(version: number, flavour = "a"): Section[] {
  return [
    { name: "weights", bytes: 8, digest: `w${version}${flavour}` },
    { name: "optimizer", bytes: 8, digest: `o${version}${flavour}` },
  ];
}

/** A healthy member named after its role, e.g. `p0`, `r1`, `c0`. */
export function memberOf(id: string, joinedSeq: number, patch: Partial<Member> = {}): Member {
  const roles: Record<string, ReplicaRole> = { p: "policy", r: "rollout", c: "checkpoint" };
  return {
    id,
    role: roles[id[0] ?? ""] ?? "rollout",
    incarnation: `${id}-i${joinedSeq}`,
    joinedSeq,
    host: "h",
    pid: joinedSeq,
    addresses: id.startsWith("p") ? [`unix:${id}`] : [],
    health: "healthy",
    hungAtMs: null,
    recoveries: [],
    held: null,
    order: null,
    retryAtMs: 0,
    unanswered: 0,
    ...patch,
  };
}

interface Setting {
  readonly plan?: ControllerPlan;
  /** Ids in order of arrival. */
  readonly members?: readonly string[];
  /** Committed version; every policy and rollout replica holds it, and the next step is one later. */
  readonly version?: number;
  readonly patch?: Partial<ControllerState>;
}

/** A job in the middle of its work: members hold the committed version, the policies are a ready mesh. */
export function working({
  plan = planWith(),
  members = ["p0", "p1", "r0"],
  version = 3,
  patch = {},
}: Setting = {}): ControllerState {
  const held = { lineage: 0, version };
  const table = members.map((id, i) => memberOf(id, i + 1, id.startsWith("c") ? {} : { held }));
  const policies = table.filter(({ role }) => role === "policy").map(({ id }) => id);
  const start = initialControllerState(plan);
  return {
    ...start,
    term: 1,
    nowMs: 1_000,
    joins: table.length,
    engineBuild: "b",
    samplerBuild: "b",
    members: Object.fromEntries(table.map((member) => [member.id, member])),
    weights: { lineage: 0, version, sections: sectionsOf(version) },
    mesh: {
      epoch: 2,
      members: policies,
      state: "ready",
      joins: table.length,
      built: policies,
      dueAtMs: 0,
      joinDueAtMs: null,
    },
    step: { ...start.step, step: version + 1 },
    ...patch,
  };
}

/** The receipt of a group. */
export function receiptOf(step: number, index: number, patch: Partial<GroupReceipt> = {}): GroupReceipt {
  const counts = { completed: 2, aborted: 0, tokens: 5, rewardSum: 1 };
  return { step, index, attempt: 0, streamSeq: step * 100 + index, version: step - 1, ...counts, ...patch };
}

/** Groups of a step: the first `settled` of four have their receipts, the rest waits. */
export function groupsOf(step: number, settled: number, count = 4): StepGroups {
  const indices = Array.from({ length: count }, (_, index) => index);
  return {
    queue: indices.slice(settled).map((index) => ({ index, attempt: 0 })),
    receipts: Object.fromEntries(indices.slice(0, settled).map((index) => [index, receiptOf(step, index)])),
    quarantined: [],
  };
}

/** A vote for the candidate of some flavour. */
export function voteFor(version: number, flavour = "a", patch: Partial<Vote> = {}): Vote {
  return {
    vote: "commit",
    finite: true,
    sections: sectionsOf(version, flavour),
    stats: null,
    cause: "",
    missing: [],
    ...patch,
  };
}

/** A state whose step runs with these votes; admitted counts match. */
export function stepping(votes: Readonly<Record<string, Vote>>, setting: Setting = {}): ControllerState {
  const state = working(setting);
  const { step, groupsPerStep, groupSize } = { ...state.plan, step: state.step.step };
  return {
    ...state,
    groups: { [step]: groupsOf(step, groupsPerStep, groupsPerStep) },
    step: { ...state.step, state: "running", votes, startedAtMs: 900, dueAtMs: 5_000 },
    ledger: { admitted: groupsPerStep * groupSize, trained: 0, aborted: 0, quarantined: 0 },
    ...setting.patch,
  };
}

/** A report of a member of the state. */
export function reportFrom<K extends KindOf<"report">>(
  state: ControllerState,
  from: string,
  { kind, body, atMs = state.nowMs }: { readonly kind: K; readonly body: Body<K>; readonly atMs?: number },
): ReportOf<K> {
  const { role, incarnation } = state.members[from] ?? { role: "operator", incarnation: "o" };
  return { type: kind, atMs, from, role, incarnation, body } as unknown as ReportOf<K> & ControllerEvent;
}

/** Effects as short lines: `p0 step.run`, `! step.committed`, `admit r0`. */
export function linesOf(effects: readonly ControllerEffect[]): string[] {
  return effects.map((effect) => {
    if (effect.type === "command") return `${effect.to} ${effect.kind}`;
    if (effect.type === "announce") return `! ${effect.kind}`;
    return effect.type === "admit" ? `admit ${effect.to}` : effect.type;
  });
}

/** Bodies of the commands or events of a kind. */
export function bodiesOf<K extends Kind>(effects: readonly ControllerEffect[], kind: K): Body<K>[] {
  return effects.flatMap((effect) => ("kind" in effect && effect.kind === kind ? [effect.body as Body<K>] : []));
}
