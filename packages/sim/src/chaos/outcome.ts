/** What became of each fault of a chaos run: the job recovered, had nothing to recover from, or never did. Pure. */
import type { HeardEvent } from "./follow.ts";
import { type Injection, type Recovery, windowEnd } from "./measure.ts";

/**
 * Why a fault had nothing to recover from: there was `nobody` to hit; who was hit was no member (`stranger`); it was suspected and came
 * back in time (`doubted`); the next fault hit it before anybody noticed this one (`overtaken`); or no event told of it (`unnoticed`).
 */
export type Harmless = "nobody" | "stranger" | "doubted" | "overtaken" | "unnoticed";

/** What became of one fault. `open`: it had to be recovered from, and was not. */
export interface Outcome {
  readonly n: number;
  /** `<kind>.<role>`. */
  readonly kind: string;
  readonly outcome: "recovered" | "open" | Harmless;
}

/** Says of every fault of the plan that was tried what became of it. */
export function outcomesOf(
  injections: readonly Injection[],
  events: readonly HeardEvent[],
  recoveries: readonly Recovery[],
): readonly Outcome[] {
  const byN = new Map(recoveries.map((recovery) => [recovery.n, recovery]));
  return injections.map((injection) => {
    const { n, kind, target } = injection;
    const recovery = byN.get(n);
    const outcome = recovery ? outcomeOf(recovery, injection, { injections, events }) : "nobody";
    return { n, kind: `${kind}.${target.role}`, outcome };
  });
}

interface Heard {
  readonly injections: readonly Injection[];
  readonly events: readonly HeardEvent[];
}

function outcomeOf(recovery: Recovery, injection: Injection, { injections, events }: Heard): Outcome["outcome"] {
  if (recovery.recoverMs !== null) return "recovered";
  // Nothing was trained since: whatever it was, the job is not through with it.
  if (!events.some(({ kind, atMs }) => kind === "step.committed" && atMs > injection.injectedAtMs)) return "open";
  if (recovery.isLoss) return "open";
  const endMs = windowEnd(injection, injections);
  const otherwise = endMs < Number.POSITIVE_INFINITY ? "overtaken" : "open";
  if (recovery.detectMs !== null) return isBack(injection, events, endMs) ? "doubted" : otherwise;
  if (!isDeadly(injection)) return "unnoticed";
  return wasMember(injection, events) ? otherwise : "stranger";
}

/** Who is killed while it is a member has to be missed. */
function isDeadly({ kind }: Injection): boolean {
  return kind === "kill" || kind === "rack" || kind === "node";
}

/** True when somebody of whom the fault is had joined by then, and was neither out nor gone. */
function wasMember({ kind, id, target, injectedAtMs }: Injection, events: readonly HeardEvent[]): boolean {
  const present = new Set<string>();
  for (const event of events) {
    if (event.atMs >= injectedAtMs) break;
    if (event.kind !== "member.joined" && event.kind !== "member.left" && event.kind !== "member.died") continue;
    const isMeant = kind === "rack" ? event.body.role === target.role : event.body.id === id;
    if (!isMeant) continue;
    if (event.kind === "member.joined") present.add(event.body.incarnation);
    else present.delete(event.body.incarnation);
  }
  return present.size > 0;
}

/** True when the one who was suspected after the fault was heard again, left, or began another life before `endMs`. */
function isBack({ id, injectedAtMs }: Injection, events: readonly HeardEvent[], endMs: number): boolean {
  let isDoubted = false;
  for (const { kind, body, atMs } of events) {
    if (atMs < injectedAtMs || atMs >= endMs) continue;
    if ("id" in body && body.id === id) isDoubted = kind === "member.suspected" || (isDoubted && !endsDoubt(kind));
  }
  return !isDoubted;
}

function endsDoubt(kind: HeardEvent["kind"]): boolean {
  return kind === "member.recovered" || kind === "member.left" || kind === "member.joined";
}
