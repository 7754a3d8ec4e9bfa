/** What planners ask about all members after every input: counts, the next deadline, and whether anybody is there of whom there are mostly none. */
import { type MemberRole, memberRoles, perMemberRole, traitsOf } from "@muster/protocol";
import { keptFold } from "../../table/fold.ts";
import { isSame, type VersionKey } from "../../version-key.ts";
import type { Member } from "./member.ts";

/** A number of members, summed up. */
export interface Crowd {
  readonly count: Readonly<Record<MemberRole, number>>;
  readonly healthy: Readonly<Record<MemberRole, number>>;
  /** Those that do not leave. */
  readonly staying: Readonly<Record<MemberRole, number>>;
  /** Those that hold weights. */
  readonly holding: Readonly<Record<MemberRole, number>>;
  /** Healthy samplers that hold weights. */
  readonly workers: number;
  /** Who makes the initial weights, and who makes a candidate live. */
  readonly beginning: number;
  readonly applying: number;
  /** When the first unanswered order is due. */
  readonly dueAtMs: number;
  /** Who wants to leave and is not told to stop yet. */
  readonly leaving: number;
  /** What those without an order hold of whom each should hold weights, and which do not leave: each version once. */
  readonly idleWith: readonly (VersionKey | null)[];
}

const nobody: Crowd["count"] = perMemberRole(() => 0);

/** All members, or a part of them, summed up. */
export const crowd = keptFold<Member, Crowd>({
  empty: {
    ...{ count: nobody, healthy: nobody, staying: nobody, holding: nobody, workers: 0, beginning: 0, applying: 0 },
    ...{ dueAtMs: Number.POSITIVE_INFINITY, leaving: 0, idleWith: [] },
  },
  of({ role, health, held, order }) {
    const isLeaving = health === "draining";
    const isIdle = order === null && !isLeaving && traitsOf(role).holdsWeights;
    const one = { ...nobody, [role]: 1 };
    return {
      count: one,
      healthy: health === "healthy" ? one : nobody,
      staying: isLeaving ? nobody : one,
      holding: held ? one : nobody,
      workers: role === "rollout" && health === "healthy" && held ? 1 : 0,
      beginning: order?.kind === "weights.initialize" ? 1 : 0,
      applying: order?.kind === "step.apply" ? 1 : 0,
      dueAtMs: order?.dueAtMs ?? Number.POSITIVE_INFINITY,
      leaving: isLeaving && order?.kind !== "replica.stop" ? 1 : 0,
      idleWith: isIdle ? [held] : [],
    };
  },
  join: (a, b) => ({
    count: sumOf(a.count, b.count),
    healthy: sumOf(a.healthy, b.healthy),
    staying: sumOf(a.staying, b.staying),
    holding: sumOf(a.holding, b.holding),
    workers: a.workers + b.workers,
    beginning: a.beginning + b.beginning,
    applying: a.applying + b.applying,
    dueAtMs: Math.min(a.dueAtMs, b.dueAtMs),
    leaving: a.leaving + b.leaving,
    idleWith: unionOf(a.idleWith, b.idleWith),
  }),
});

function sumOf(a: Crowd["count"], b: Crowd["count"]): Crowd["count"] {
  if (a === nobody) return b;
  if (b === nobody) return a;
  const sum = { ...a };
  for (const role of memberRoles) sum[role] += b[role];
  return sum;
}

function unionOf(a: Crowd["idleWith"], b: Crowd["idleWith"]): Crowd["idleWith"] {
  return [...a, ...b.filter((key) => !a.some((known) => known === key || isSame(known, key)))];
}
