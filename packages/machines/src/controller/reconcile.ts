/**
 * The planners, what each of them looks at, and when they rest. A planner that found nothing to do finds nothing again while what it reads is the same, so it
 * is asked again only when a table that it reads has changed, or when time alone may have something to say. That is all that `reads` and `timed` do: with
 * them and without them every input leads to the same state and the same orders (`planners.test.ts`).
 */
import { invariant } from "@muster/base";
import { sizeOf } from "../table/table.ts";
import { isBarrierWaiting, planBarriers } from "./barriers/plan-barriers.ts";
import { planCheckpoint } from "./checkpoints/plan-checkpoint.ts";
import { planRestore } from "./checkpoints/plan-restore.ts";
import { planQuorum } from "./checkpoints/quorum.ts";
import type { Change, ControllerEffect } from "./events.ts";
import { planStarts } from "./fleet/failed-starts.ts";
import { planHealth } from "./fleet/fleet-health.ts";
import { planAssign } from "./fleet/plan-assign.ts";
import { planCommands } from "./fleet/plan-commands.ts";
import { planDepartures, planNodes, planPlacement, planShortage } from "./fleet/plan-fleet.ts";
import { planMoves } from "./fleet/plan-moves.ts";
import { dispatchGroups, planAdmission, planEvaluation } from "./groups/dispatch-groups.ts";
import { planCeiling } from "./groups/given-up.ts";
import { planHeldOutput } from "./groups/held-output.ts";
import { planRoom } from "./groups/make-room.ts";
import { planReadmission } from "./members/plan-readmission.ts";
import { planStragglers } from "./members/plan-stragglers.ts";
import { planOverdue } from "./orders.ts";
import { planPhase } from "./phases/plan-phase.ts";
import { planEnd } from "./plan-end.ts";
import { planReleases } from "./plan-releases.ts";
import { planWatchdog } from "./plan-watchdog.ts";
import type { ControllerState } from "./state.ts";
import { planDivergent } from "./step/divergence.ts";
import { planLosses } from "./step/lost-attempts.ts";
import { planJoinWindow, planMesh } from "./step/plan-mesh.ts";
import { planStepOutcome, planStepRun } from "./step/plan-step.ts";
import { planSearch } from "./step/search-batch.ts";
import { planMemory } from "./weights/plan-memory.ts";
import { planPublish } from "./weights/plan-publish.ts";
import { planInitialWeights, planPulls } from "./weights/plan-weights.ts";

interface Planner {
  readonly plan: (state: ControllerState) => Change<ControllerState> | null;
  /** Tables on which it depends whether there is anything to do; the job's plan never changes. */
  readonly reads: readonly (keyof ControllerState)[];
  /** True while that may come with time alone; absent where it never does. */
  readonly timed?: (state: ControllerState) => boolean;
}

const always = (): boolean => true;

/** In this order: what ends something comes before what starts something. */
export const planners: readonly Planner[] = [
  { plan: planReadmission, reads: ["waiting", "evictions", "ending"], timed: (state) => sizeOf(state.waiting) > 0 },
  {
    plan: planWatchdog,
    reads: [
      ...(["ending", "stopped", "progress", "members", "mesh"] as const),
      ...(["jobPhase", "weights", "step", "groups", "changes", "evaluation", "leases"] as const),
    ],
    timed: ({ progress }) => !progress.isShort,
  },
  { plan: planBarriers, reads: ["barriers", "ending"], timed: isBarrierWaiting },
  { plan: planOverdue, reads: ["members", "leases"], timed: always },
  { plan: planHeldOutput, reads: ["heldBack"], timed: ({ heldBack }) => (heldBack ?? null) !== null },
  {
    plan: planRoom,
    reads: [
      ...(["heldBack", "groupsFill", "step", "groups", "history"] as const),
      ...(["checkpoints", "leases", "purgedSeq", "roomMade", "changes", "ending"] as const),
    ],
    timed: ({ heldBack }) => (heldBack ?? null) !== null,
  },
  { plan: planCeiling, reads: ["ending", "givenUp"] },
  { plan: planStarts, reads: ["fleet", "members", "checkpoints", "ending"] },
  { plan: planNodes, reads: ["fleet", "members"] },
  { plan: planHealth, reads: ["fleet", "members", "weights", "ending"] },
  {
    plan: planStepOutcome,
    reads: ["step", "mesh", "members", "losses"],
    timed: ({ step }) => step.state === "running",
  },
  { plan: planLosses, reads: ["losses", "step", "ending", "fleet", "members"] },
  { plan: planStragglers, reads: ["paces", "members", "mesh", "step", "ending"] },
  { plan: planDivergent, reads: ["divergences", "members", "mesh", "step", "ending"] },
  { plan: planRestore, reads: ["weights", "step", "members", "restore", "checkpoints", "ending"] },
  {
    plan: planInitialWeights,
    reads: ["weights", "members", "restore", "checkpoints", "ending"],
    timed: ({ weights }) => weights === null,
  },
  { plan: planJoinWindow, reads: ["mesh", "members"] },
  {
    plan: planMesh,
    reads: ["weights", "step", "mesh", "members", "fleet", "ending"],
    timed: ({ mesh }) => mesh.state !== "ready" || mesh.joinDueAtMs !== null,
  },
  { plan: planPulls, reads: ["weights", "members", "ending", "restore"], timed: always },
  { plan: planPublish, reads: ["weights", "step", "members", "checkpoints", "ending"], timed: always },
  { plan: planAdmission, reads: ["weights", "step", "groups", "changes", "ending"] },
  {
    plan: planEvaluation,
    reads: ["evaluation", "evaluatedVersion", "weights", "step", "jobPhase", "changes", "ending"],
  },
  { plan: planSearch, reads: ["losses", "groups", "step", "mesh", "changes", "ending"] },
  {
    plan: planPhase,
    reads: ["jobPhase", "groups", "step", "weights", "changes", "evaluation", "leases", "ending"],
  },
  {
    plan: planStepRun,
    reads: ["groups", "step", "weights", "mesh", "members", "evaluation", "losses", "jobPhase", "changes", "ending"],
  },
  {
    plan: planCheckpoint,
    reads: ["checkpoints", "step", "weights", "members", "heldBack", "groupsFill", "changes", "ending"],
    timed: always,
  },
  { plan: planQuorum, reads: ["checkpoints", "members"] },
  { plan: planMemory, reads: ["step", "weights", "members", "ending"], timed: ({ plan }) => plan.memoryEvery > 0 },
  {
    plan: dispatchGroups,
    reads: [
      ...(["groups", "evaluation", "weights", "step", "members", "changes"] as const),
      ...(["leases", "fleet", "shortages", "jobPhase", "ending"] as const),
    ],
    timed: always,
  },
  { plan: planMoves, reads: ["fleet", "members", "ending"], timed: always },
  { plan: planPlacement, reads: ["fleet", "members", "ending"] },
  { plan: planDepartures, reads: ["fleet", "members", "ending"], timed: always },
  { plan: planCommands, reads: ["fleet", "members", "term", "ending"] },
  { plan: planAssign, reads: ["fleet", "members", "ending"], timed: always },
  { plan: planShortage, reads: ["fleet", "members", "mesh", "ending"], timed: ({ fleet }) => fleet.shortage !== null },
  { plan: planReleases, reads: ["members", "leases", "weights", "step", "mesh", "fleet", "checkpoints", "ending"] },
  {
    plan: planEnd,
    reads: [
      "step",
      "evaluation",
      "evaluatedVersion",
      "weights",
      "checkpoints",
      "members",
      "changes",
      "stopped",
      "ending",
    ],
    timed: always,
  },
];

/** More rounds than any state needs; a planner that never rests is a bug. */
const roundsMax = 64;

/** Places of the planners that read each table. */
const readersOf = new Map<keyof ControllerState, number[]>();
for (const [i, { reads }] of planners.entries())
  for (const table of reads) readersOf.set(table, [...(readersOf.get(table) ?? []), i]);

/** States in which every planner rests. */
const atRest = new WeakSet<ControllerState>();

/**
 * Lets the planners look at a state, one after the other, until none of them finds anything to do. `before` is the state that the input came to; where its
 * planners rested, those that read nothing of what changed need not look again.
 */
export function reconcile(before: ControllerState, state: ControllerState): Change<ControllerState> {
  const effects: ControllerEffect[] = [];
  const hasRested = atRest.has(before);
  const isLater = before.nowMs !== state.nowMs;
  // Of each planner, whether something that it reads has changed since it last found nothing.
  const woken = planners.map(() => !hasRested);
  wakeReaders(woken, before, state);
  let current = state;
  // They are at rest when each of them, one after the other, has looked at the same state.
  let resting = 0;
  for (let look = 0; look < roundsMax * planners.length; look++) {
    const i = look % planners.length;
    const planner = planners[i];
    const isTime = isLater && look < planners.length;
    // no mutant: who is asked in vain finds nothing
    const change = planner && (woken[i] || (isTime && planner.timed?.(current))) ? planner.plan(current) : null;
    if (change) effects.push(...change.effects);
    if (change && change.state !== current) {
      wakeReaders(woken, current, change.state);
      // Who has acted may have more to do.
      woken[i] = true;
      current = change.state;
      resting = 0;
    } else {
      woken[i] = false;
      resting += 1;
    }
    if (resting === planners.length) {
      // no mutant: of whom it is not known that they rest, all are asked
      atRest.add(current);
      return { state: current, effects };
    }
  }
  invariant(false, "the planners do not come to rest");
}

function wakeReaders(woken: boolean[], before: ControllerState, state: ControllerState): void {
  for (const [table, readers] of readersOf)
    if (before[table] !== state[table]) for (const i of readers) woken[i] = true;
}
