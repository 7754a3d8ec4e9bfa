/**
 * A job in the words of a multi-node script, whose iteration has the phases 0 to 13: the phases in which the job is, and who holds it up there. It is
 * derived from the tables and decides nothing: a job of Muster waits in fewer places than such a script.
 */

import { phaseOf } from "../controller/controller-machine.ts";
import { crowd } from "../controller/members/crowd.ts";
import { type ControllerState, type Lease, membersOf } from "../controller/state.ts";

/** Where a job is in an iteration of a script. */
export interface ScriptPhase {
  /** The first and the last of the phases that are one here. */
  readonly phases: readonly [first: number, last: number];
  readonly says: string;
  /** Who holds the job up there, each with what is missing of it; the first ones only. */
  readonly waitsFor: readonly string[];
  /** Those that are not named. */
  readonly more: number;
}

const namedMax = 16;

/** The phase in which the job is. Pure. */
export function scriptPhaseOf(state: ControllerState): ScriptPhase {
  switch (phaseOf(state)) {
    case "gathering":
      return phase([0, 0], "gather the replicas that training begins with", absentOf(state));
    case "seeding":
      return phase([0, 0], "make the first weights", orderedOf(state, ["weights.initialize"]));
    case "restoring":
      return phase([0, 0], "restore the weights", [...absentOf(state), ...orderedOf(state, ["weights.initialize"])]);
    case "sampling":
      return samplingOf(state);
    case "rebuilding": {
      const { members, built } = state.mesh;
      return phase(
        [7, 9],
        "prepare the training: a new mesh of trainers",
        members.filter((id) => !built.includes(id)),
      );
    }
    case "stepping": {
      const { votes } = state.step;
      return phase(
        [10, 10],
        "train on all trainers",
        state.mesh.members.filter((id) => !votes[id]),
      );
    }
    case "publishing":
      return phase([11, 12], "bring the new weights to everybody", orderedOf(state, ["step.apply", "weights.pull"]));
    default:
      return phase([13, 13], "end", state.stopped ? [] : membersOfJob(state));
  }
}

/** Sampling and its evaluation go on at the same time; what is leased for training is named first. */
function samplingOf(state: ControllerState): ScriptPhase {
  const training = holdersOf(state, "train");
  const held = holdersOf(state, "eval");
  const isOnlyEvaluation = state.evaluation !== null && training.length === 0;
  return isOnlyEvaluation
    ? phase([5, 6], `evaluate version ${state.evaluation?.version}`, held)
    : phase([1, 4], `sample step ${state.step.step} and collect its groups`, [...training, ...held]);
}

/** Who has groups on lease, and how many. */
function holdersOf({ leases }: ControllerState, purpose: "train" | "eval"): readonly string[] {
  const counts = new Map<string, number>();
  for (const { holder, items } of Object.values(leases) as readonly Lease[]) {
    const count = items.filter((item) => item.purpose === purpose).length;
    if (count > 0) counts.set(holder, (counts.get(holder) ?? 0) + count);
  }
  const what = purpose === "train" ? "of training" : "of evaluation";
  return [...counts].map(([id, count]) => `${id}: ${count} ${what} on lease`);
}

/** Who has not answered one of these orders. */
function orderedOf({ members }: ControllerState, kinds: readonly string[]): readonly string[] {
  return Object.values(members).flatMap(({ id, order }) =>
    order && kinds.includes(order.kind) ? [`${id}: ${order.kind}`] : [],
  );
}

/** Replicas that training needs to begin. */
function absentOf({ members, plan }: ControllerState): readonly string[] {
  return (["policy", "rollout"] as const).flatMap((role) => {
    const [there, needed] = [crowd.of(members).healthy[role], plan.initReplicas[role]];
    return there < needed ? [`${role}: ${there} of ${needed} are there`] : [];
  });
}

function membersOfJob(state: ControllerState): readonly string[] {
  return (["policy", "rollout", "checkpoint"] as const).flatMap((role) => membersOf(state, role).map(({ id }) => id));
}

function phase(phases: ScriptPhase["phases"], says: string, all: readonly string[]): ScriptPhase {
  return { phases, says, waitsFor: all.slice(0, namedMax), more: Math.max(0, all.length - namedMax) };
}
