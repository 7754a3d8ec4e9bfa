/**
 * Which reports nobody waits for. Each record of the journal is a synced write; a report that leads to nothing by itself (one vote of several, a receipt of
 * a step that is not whole, one more holder of a version) is as good when it is written with the next one. Nothing is lost by it: what is not written is not
 * acknowledged, and is delivered again. Only how soon it is written hangs on this, and nothing that is decided.
 */
import { traitsOf } from "@muster/protocol";
import { sizeOf } from "../table/table.ts";
import { isSame } from "../version-key.ts";
import { control } from "./control.ts";
import type { ControllerEvent, ReportOf } from "./events.ts";
import { isWorkWaiting } from "./groups/dispatch-groups.ts";
import { groupsIn } from "./sizes.ts";
import { type ControllerState, holdsCurrent, membersOf, meshMembersOf } from "./state.ts";

/** What is counted over reports that wait together: the last vote of two presses, whichever it is. */
interface ReportTally {
  readonly votes: Set<string>;
  /** Receipts by lease, and by step. */
  readonly ofLease: Map<string, number>;
  readonly ofStep: Map<number, number>;
}

/** True while nobody waits for any of these reports, which came in this order. Pure. */
export function mayWait(state: ControllerState, events: readonly ControllerEvent[]): boolean {
  const seen: ReportTally = { votes: new Set(), ofLease: new Map(), ofStep: new Map() };
  return state.ending === null && events.every((event) => isPatient(state, event, seen));
}

/**
 * True while what the controller says to itself may be stepped before reports that wait: time in which nothing becomes due. A verdict may not: of who is out
 * no word counts, and what is finished would be sampled again and be blamed for the end. Nor may a deadline: who answered in time is not absent. Pure.
 */
export function mayPass(state: ControllerState, event: ControllerEvent): boolean {
  if (event.type !== "controller.tick" && event.type !== "controller.filled") return false;
  return control(state, event).effects.length === 0;
}

function isPatient(state: ControllerState, event: ControllerEvent, seen: ReportTally): boolean {
  switch (event.type) {
    case "step.voted":
      return isOneVoteOfSeveral(state, event, seen);
    case "weights.held":
      return isOneMoreHolder(state, event);
    case "groups.completed":
      return isPartOfMore(state, event, seen);
    case "groups.saved":
      return true;
    default:
      return false;
  }
}

function isOneVoteOfSeveral(
  { step, ...state }: ControllerState,
  event: ReportOf<"step.voted">,
  seen: ReportTally,
): boolean {
  const { body, from } = event;
  if (step.state !== "running" || body.step !== step.step || body.attempt !== step.attempt) return false;
  if (body.vote !== "commit" || !body.finite) return false;
  seen.votes.add(from);
  return meshMembersOf({ step, ...state }).some(({ id }) => !step.votes[id] && !seen.votes.has(id));
}

/** A checkpoint actor, or a rank of the mesh after another one: who pulls has somebody to ask already, and the next step has not all of its groups. */
function isOneMoreHolder(state: ControllerState, { from, body }: ReportOf<"weights.held">): boolean {
  const { weights, mesh, step } = state;
  const member = state.members[from];
  // A sampler that holds it wants work.
  if (!member || traitsOf(member.role).drawsGroups || !isSame(body, weights)) return false;
  if (member.role === "policy" && (mesh.state !== "ready" || !mesh.members.includes(from))) return false;
  const groups = state.groups[step.step];
  const isWaitedFor = groups && sizeOf(groups.receipts) + groups.quarantined.length >= groupsIn(state, step.step);
  return !isWaitedFor && membersOf(state, "policy").some((other) => other.id !== from && holdsCurrent(state, other));
}

/** The step is not whole by it, and its sampler has more to do, or there is nothing more to be had. */
function isPartOfMore(state: ControllerState, { body }: ReportOf<"groups.completed">, seen: ReportTally): boolean {
  const { leaseId, receipts, causes } = body;
  const lease = state.leases[leaseId];
  const [first] = receipts;
  if (!lease || !first || causes.length > 0) return false;
  const { step } = first;
  const groups = state.groups[step];
  if (!groups) return false;
  const done = countUp(seen.ofLease, leaseId, receipts.length);
  const told = countUp(seen.ofStep, step, receipts.length);
  if (sizeOf(groups.receipts) + groups.quarantined.length + told >= groupsIn(state, step)) return false;
  return done < lease.items.length || !isWorkWaiting(state);
}

function countUp<Key>(counts: Map<Key, number>, key: Key, by: number): number {
  const count = (counts.get(key) ?? 0) + by;
  counts.set(key, count);
  return count;
}
