/**
 * The controller's logic: one input in, the next state and what must be done about it out. First the fact enters the tables, then the
 * planners look at the tables until none of them finds anything to do. Decisions therefore depend on state alone, never on the
 * order in which facts arrived.
 */
import { applyElected, repeatedTo } from "./apply-elected.ts";
import { applyArrived } from "./barriers/apply-arrived.ts";
import { applySaved, applySaveFailed } from "./checkpoints/apply-checkpoint.ts";
import { applyRestored } from "./checkpoints/apply-restored.ts";
import { applyShardsSaved } from "./checkpoints/shards.ts";
import { type Change, type ControllerEvent, command, type ReportOf } from "./events.ts";
import { applyAssigned, applyProcessEnd, applyReady, applyRetired, applyStarted } from "./fleet/apply-node.ts";
import { applySigns } from "./fleet/apply-signs.ts";
import { applyCommand, isCommand } from "./fleet/commands.ts";
import { applySignalled } from "./fleet/plan-commands.ts";
import type { CommandEvent } from "./fleet/take-command.ts";
import { applyEvaluated } from "./groups/apply-evaluation.ts";
import { applyCompleted, applyReturned, applySavedGroups } from "./groups/apply-groups.ts";
import { applyHeldGroups } from "./groups/held-output.ts";
import { applyFilled } from "./groups/stream-room.ts";
import { applyDraining, applyExited, applyLeft, applyRegister } from "./members/apply-membership.ts";
import { applyVerdict } from "./members/apply-verdict.ts";
import { forgeryOf, refuseForgery } from "./members/forgeries.ts";
import { reconcile } from "./reconcile.ts";
import { type ControllerState, withStale } from "./state.ts";
import { applyBuilt, applyMeshFailed, applyVoted } from "./step/apply-step.ts";
import { applyFailed, applyHeld } from "./weights/apply-weights.ts";

/** One step of the controller. A tick that changes nothing, and needs not be remembered, gives back the same state object. Pure. */
export function control(state: ControllerState, event: ControllerEvent): Change<ControllerState> {
  if (state.stopped) return { state, effects: [] };
  const clocked = clockedAt(state, event.atMs);
  const applied = event.type === "controller.elected" ? applyElected(state, event) : apply(clocked, event);
  const planned = reconcile(state, applied.state);
  const effects = [...applied.effects, ...planned.effects];
  const isIdleTick = event.type === "controller.tick" && effects.length === 0 && planned.state === clocked;
  return isIdleTick && !isTimeKept(state, event.atMs) ? { state, effects: [] } : { state: planned.state, effects };
}

const nothing = {};

/**
 * The state at the time of an input, built field by field: V8 then gives all states of a process one layout, and every later copy is one of memory. Once it
 * has seen states of five layouts in a place, each copy there takes ten times as long.
 */
function clockedAt(state: ControllerState, atMs: number): ControllerState {
  return { ...nothing, ...state, nowMs: Math.max(state.nowMs, atMs) };
}

/** While somebody may hang the journal knows the time well enough for a successor to go on with what is left of each wait. */
function isTimeKept({ progress, nowMs, plan }: ControllerState, atMs: number): boolean {
  return !progress.isShort && atMs - nowMs >= plan.timing.commandMs;
}

/** What is said under the name of a member counts only from its role. */
function apply(
  state: ControllerState,
  event: Exclude<ControllerEvent, { type: "controller.elected" }>,
): Change<ControllerState> {
  const forgery = "role" in event ? forgeryOf(state, event) : null;
  return forgery === null ? applyTrue(state, event) : refuseForgery(state, forgery);
}

/** Facts about replicas count only from living members; anyone else is told to come back as a new incarnation. */
function applyTrue(
  state: ControllerState,
  event: Exclude<ControllerEvent, { type: "controller.elected" }>,
): Change<ControllerState> {
  switch (event.type) {
    case "controller.tick":
      return { state, effects: [] };
    case "controller.filled":
      return applyFilled(state, event);
    case "controller.restored":
      return applyRestored(state, event);
    case "verdict.suspect":
    case "verdict.recover":
    case "verdict.hung":
    case "verdict.dead":
      return applyVerdict(state, event);
    case "replica.register": {
      const known = state.members[event.from];
      // Whoever asks again may have been away: what it missed is said again.
      if (known?.incarnation === event.incarnation) return { state, effects: repeatedTo(state, known) };
      return applyRegister(state, event);
    }
    case "replica.left":
      return applyLeft(state, event);
    case "barrier.arrived":
      return applyArrived(state, event);
    case "process.exited":
      return event.role === "operator" ? applyExited(state, event) : applyReport(state, event);
    default:
      return isCommand(event) ? applyCommand(state, event) : applyReport(state, event);
  }
}

type MemberReport = Exclude<
  ControllerEvent,
  | CommandEvent
  | { type: `controller.${string}` | `verdict.${string}` | "replica.register" | "replica.left" | "barrier.arrived" }
>;

function applyReport(state: ControllerState, event: MemberReport): Change<ControllerState> {
  if (state.members[event.from]?.incarnation !== event.incarnation) {
    const reason = "this incarnation is not a member of the job";
    return {
      state,
      effects: [command({ id: event.from, incarnation: event.incarnation }, "replica.fenced", { reason })],
    };
  }
  switch (event.type) {
    case "replica.draining":
      return applyDraining(state, event.from);
    case "weights.meta":
      return { state: { ...state, tensorsDigest: event.body.digest }, effects: [] };
    case "weights.held":
      return applyHeld(state, event);
    case "weights.failed":
      return applyFailed(state, event);
    case "mesh.built":
      return applyBuilt(state, event);
    case "mesh.failed":
      return applyMeshFailed(state, event);
    case "groups.completed":
      return applyCompleted(state, event);
    case "groups.held":
      return applyHeldGroups(state, event);
    case "groups.saved":
      return applySavedGroups(state, event);
    case "groups.returned":
      return applyReturned(state, event);
    case "evals.completed":
      return applyEvaluated(state, event);
    case "step.voted":
      return applyVoted(state, event);
    case "checkpoint.saved":
      return applySaved(state, event);
    case "checkpoint.failed":
      return applySaveFailed(state, event);
    case "shards.saved":
      return applyShardsSaved(state, event);
    default:
      return applyNodeReport(state, event);
  }
}

/** What the end of a process is to the fleet, and to the members. */
function applyBoth(first: Change<ControllerState>, event: ReportOf<"process.exited">): Change<ControllerState> {
  const second = applyExited(first.state, event);
  return { state: second.state, effects: [...first.effects, ...second.effects] };
}

type NodeReport = Extract<MemberReport, { type: `node.${string}` | `process.${string}` }>;

/** Only nodes speak of processes; from a replica it counts for nothing. */
function applyNodeReport(state: ControllerState, event: NodeReport): Change<ControllerState> {
  if (state.members[event.from]?.role !== "node") return { state: withStale(state), effects: [] };
  switch (event.type) {
    case "node.ready":
      return applyReady(state, event);
    case "node.assigned":
      return applyAssigned(state, event);
    case "node.signalled":
      return applySignalled(state, event);
    case "node.signs":
      return applySigns(state, event);
    case "process.started":
      return applyStarted(state, event);
    case "process.exited":
      return applyBoth(applyProcessEnd(state, event), event);
    case "process.retired":
      return applyRetired(state, event);
  }
}
