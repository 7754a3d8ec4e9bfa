/** When a job is steady again: everybody is a member, replicas and nodes, and steps go on. */
import { replicaRoles } from "@muster/protocol";
import type { HeardEvent } from "./follow.ts";
import { until, type WatchedRun } from "./watched-run.ts";

/** What is waited for. */
export interface SteadyOptions {
  /** Replicas that have to be members. */
  readonly wanted: number;
  /** Steps to be committed meanwhile. */
  readonly steps: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Waits until everybody is a member and steps were committed.
 *
 * @returns Milliseconds, or `null` when it took too long.
 * @throws MUSTER_ERR_CHAOS_RUN when the run ends first, and the reason of `signal`.
 */
export async function untilSteady(run: WatchedRun, options: SteadyOptions): Promise<number | null> {
  const { wanted, steps, timeoutMs, signal } = options;
  const startedMs = performance.now();
  const { subscription, command } = run;
  const committed = (): number => subscription.events.filter(({ kind }) => kind === "step.committed").length;
  const target = committed() + steps;
  const isSteady = (): boolean =>
    committed() >= target && presentOf(subscription.events) >= wanted && missedNodes(subscription.events).length === 0;
  try {
    await until(isSteady, { what: "a steady job", timeoutMs, signal, command });
    return performance.now() - startedMs;
  } catch (error) {
    if (signal.aborted || command.isOver()) throw error;
    return null;
  }
}

/** Nodes that died and are not back; flap control may admit one later than the replicas that others run in its place. Pure. */
export function missedNodes(events: readonly HeardEvent[]): readonly string[] {
  const missed = new Set<string>();
  for (const { kind, body } of events) {
    if (kind === "member.died" && body.role === "node") missed.add(body.id);
    if (kind === "member.joined" || kind === "member.left") missed.delete(body.id);
  }
  return [...missed];
}

/** How many replicas are members; nodes are none. Pure. */
export function presentOf(events: readonly HeardEvent[]): number {
  const roles: readonly string[] = replicaRoles;
  const present = new Set<string>();
  for (const { kind, body } of events) {
    if (kind === "member.joined" && roles.includes(body.role)) present.add(body.incarnation);
    if (kind === "member.left" || kind === "member.died") present.delete(body.incarnation);
  }
  return present.size;
}
