/**
 * The `training` part of a version costs more than twice what samplers read, so it is published only for who will read it. That is decided twice:
 * by the order that makes a commit live, which knows who waits at that moment, and, for who came later, by an order to one of those that hold
 * the version. While a step runs nobody is asked: whoever waits then is known when that step is committed.
 */
import type { Body } from "@muster/protocol";
import { isFreeSaver, isSaveDue } from "../checkpoints/plan-checkpoint.ts";
import { type Change, command } from "../events.ts";
import { withVersionOrder } from "../orders.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf, withMember } from "../state.ts";
import { keepersOf } from "./memory.ts";
import { trainersServing } from "./parts.ts";
import { isAskable, isMemoryBehind } from "./plan-memory.ts";
import { isFree } from "./plan-weights.ts";

/** What is kept of a version that is committed now, besides `serving`: given to all whose candidate it is. Pure. */
export function keepOf(state: ControllerState): NonNullable<Body<"step.apply">["keep"]> {
  const isRead =
    membersOf(state, "policy").some((member) => isJoiner(state, member)) ||
    (isSaveDue(state) && membersOf(state, "checkpoint").some(({ order }) => order?.kind !== "replica.stop")) ||
    membersOf(state, "checkpoint").some((member) => isMemoryBehind(state, member));
  return isRead ? ["training"] : [];
}

/** Has one of its holders publish the `training` part of the committed version, when somebody waits for it and nobody serves it. Pure. */
export function planPublish(state: ControllerState): Change<ControllerState> | null {
  const { weights, step, plan } = state;
  if (!weights || step.state === "running" || !isWaitedFor(state) || isServed(state)) return null;
  const holders = membersOf(state, "policy").filter(
    (member) => holdsCurrent(state, member) && member.addresses.length > 0 && member.order?.kind !== "replica.stop",
  );
  if (holders.some(({ order }) => order?.kind === "weights.publish")) return null;
  const [holder] = holders.filter((member) => isFree(state, member)).sort((a, b) => rankOf(a) - rankOf(b));
  if (!holder) return null;
  const { lineage, version } = weights;
  const order = { kind: "weights.publish", lineage, version, withinMs: plan.timing.pullMs } as const;
  return {
    state: withMember(state, holder.id, withVersionOrder(state, holder, order)),
    effects: [command(holder, "weights.publish", { lineage, version, parts: ["training"] })],
  };
}

/** A healthy one that answered its last order is the first choice; then by arrival, as the sort is stable. */
function rankOf({ health, unanswered }: Member): number {
  return (health === "healthy" ? 0 : 1) + (unanswered > 0 ? 2 : 0);
}

/** A suspect serves on, but nobody is sent to it, so another one is asked. */
function isServed(state: ControllerState): boolean {
  const trainers = trainersServing(state).filter(({ health }) => health !== "suspect");
  return trainers.length > 0 || keepersOf(state, state.weights).length > 0;
}

function isWaitedFor(state: ControllerState): boolean {
  const { checkpoints, step } = state;
  const isSaving = checkpoints.wantedStep === step.step - 1 && (checkpoints.saved?.step ?? 0) < checkpoints.wantedStep;
  return (
    membersOf(state, "policy").some((member) => isJoiner(state, member)) ||
    (isSaving && membersOf(state, "checkpoint").some((member) => isFreeSaver(state, member))) ||
    membersOf(state, "checkpoint").some((member) => isAskable(state, member))
  );
}

/**
 * A policy replica that needs all of the committed version from somebody else. One that still pulls an older version, maybe because its engine is
 * not open yet, is none: it would have every version published until it answers, and then the next step waits for it.
 */
function isJoiner(state: ControllerState, member: Member): boolean {
  return !state.ending && member.health !== "draining" && member.order === null && !holdsCurrent(state, member);
}
