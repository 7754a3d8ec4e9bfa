/** What each command of an operator changes at once, and why it may be refused. Every refusal names the field, the value and the way out. */
import { type CommandKind, replicaRoles } from "@muster/protocol";
import type { ReportOf } from "../events.ts";
import { takeImport, takePhase } from "../phases/take-phase.ts";
import { takeChange } from "../settings.ts";
import { type ControllerState, endingWith, withMember } from "../state.ts";
import type { CommandOutcome } from "./command-outcome.ts";
import {
  type CommandAnswer,
  type CommandRow,
  type FleetReplica,
  type ReplicaCounts,
  withFleet,
  withReplica,
} from "./fleet-state.ts";
import { type Place, roomFor, roomOn } from "./place.ts";
import { makeReplica } from "./plan-fleet.ts";

/** What operators may ask. */
export type CommandEvent = ReportOf<CommandKind>;

/** Takes a command: changes what is wanted, or says why it cannot be. Pure. */
export function takeCommand(state: ControllerState, event: CommandEvent, id: string): CommandOutcome {
  switch (event.type) {
    case "job.stop":
      return takeStop(state, event.body.reason);
    case "fleet.scale":
      return takeScale(state, event.body);
    case "fleet.cordon":
      return takeCordon(state, event.body.id, true);
    case "fleet.uncordon":
      return takeCordon(state, event.body.id, false);
    case "replica.drain":
      return takeDrain(state, event.body.id);
    case "replica.replace":
      return takeReplace(state, event.body.id);
    case "replica.kill":
      return takeKill(state, event.body);
    case "command.cancel":
      return takeCancel(state, event.body.target, id);
    case "job.change":
      return takeChange(state, event.body);
    case "job.phase":
      return takePhase(state, event.body);
    case "groups.import":
      return takeImport(state, event.body);
  }
}

const refusal = (state: ControllerState, text: string): CommandOutcome => ({ state, refusal: text });
const done = (detail: string): CommandAnswer => ({ outcome: "done", detail });

function unknown(state: ControllerState, field: string, value: string): CommandOutcome {
  const ids = [...new Set([...Object.keys(state.members), ...Object.keys(state.fleet.replicas)])].sort();
  const shown = ids.slice(0, 20).join(", ") || "none";
  return refusal(state, `${field} = "${value}" is no replica or node of this job; there are: ${shown}`);
}

/** Done when the job has ended: see `finishStops`. */
function takeStop(state: ControllerState, reason: string): CommandOutcome {
  const { ending } = state;
  if (ending?.announced) {
    const detail = `the job has ended: ${ending.reason}`;
    return { state, detail, effects: [], answer: done(detail) };
  }
  if (ending) return { state, detail: `the job is ending already: ${ending.reason}`, effects: [] };
  const detail = "the job ends after the running step";
  return { state: endingWith(state, "stopped", reason), detail, effects: [] };
}

function takeScale(state: ControllerState, body: ReportOf<"fleet.scale">["body"]): CommandOutcome {
  const asked = replicaRoles.filter((role) => body[role] !== undefined);
  if (asked.length === 0) return refusal(state, "no role is given; name at least one, for example rollout = 4");
  if (state.ending) return refusal(state, `the job is ending: ${state.ending.reason}`);
  const { microShards } = state.plan;
  if ((body.policy ?? 0) > microShards)
    return refusal(
      state,
      `policy = ${body.policy}: a policy replica without a micro-shard has nothing to do; use at most batch.micro_shards = ${microShards}`,
    );
  const before = state.fleet.wanted;
  const given = Object.fromEntries(asked.map((role) => [role, body[role] ?? 0]));
  const wanted: ReplicaCounts = { ...before, ...given };
  const detail = asked.map((role) => `${role} ${before[role]} → ${wanted[role]}`).join(", ");
  return { state: withFleet(state, { wanted }), detail, effects: [], row: { before } };
}

function takeCordon(state: ControllerState, id: string, isOn: boolean): CommandOutcome {
  if (!state.members[id] && !state.fleet.replicas[id]) return unknown(state, "id", id);
  const others = state.fleet.cordoned.filter((other) => other !== id);
  const detail = isOn ? `${id} gets no new work` : `${id} gets new work again`;
  const next = withFleet(state, { cordoned: isOn ? [...others, id] : others });
  return { state: next, detail, effects: [], answer: done(detail) };
}

function takeDrain(state: ControllerState, id: string): CommandOutcome {
  const replica = state.fleet.replicas[id];
  const member = state.members[id];
  if (!replica && !member) return unknown(state, "id", id);
  const row = { target: id };
  if (replica) {
    if (replica.leaving) return { state, detail: `${id} is released already`, effects: [], row };
    const isOne = replica.health !== "RETIRED" && replica.replacedBy === null;
    const count = Math.max(0, state.fleet.wanted[replica.role] - (isOne ? 1 : 0));
    const wanted = { ...state.fleet.wanted, [replica.role]: count };
    const next = withReplica(withFleet(state, { wanted }), id, { leaving: true });
    const detail = `${id} hands back its work and leaves; ${replica.role} = ${count} from now on`;
    return { state: next, detail, effects: [], row };
  }
  const detail =
    member?.role === "node" ? `${id} gives up its replicas and leaves` : `${id} hands back its work and leaves`;
  return { state: withMember(state, id, { health: "draining" }), detail, effects: [], row };
}

function takeReplace(state: ControllerState, id: string): CommandOutcome {
  const replica = state.fleet.replicas[id];
  if (!replica) {
    if (!state.members[id]) return unknown(state, "id", id);
    return refusal(state, `id = "${id}" runs under no node of this job; drain it, and scale its role`);
  }
  if (replica.leaving) return refusal(state, `id = "${id}" is released already`);
  if (replica.replacedBy !== null) return refusal(state, `id = "${id}" is being replaced by ${replica.replacedBy}`);
  const place = roomFor(state, replica.role) ?? ownPlaceOf(state, replica);
  const made = makeReplica(state, replica.role, place);
  const next = withReplica(made.state, id, { replacedBy: made.id });
  const where = place === null ? "as soon as a node has room" : `on ${place.node}`;
  const row = { target: id, replacement: made.id };
  return { state: next, detail: `${made.id} comes first ${where}, then ${id} leaves`, effects: [], row };
}

/** Who was given up has no process: where nobody else has room, its successor comes where it was. */
function ownPlaceOf(state: ControllerState, { health, node, role }: FleetReplica): Place | null {
  return health === "RETIRED" && node !== null ? roomOn(state, node, role) : null;
}

function takeKill(
  state: ControllerState,
  { id, signal }: { readonly id: string; readonly signal: string },
): CommandOutcome {
  const replica = state.fleet.replicas[id];
  if (!replica) {
    if (!state.members[id]) return unknown(state, "id", id);
    return refusal(state, `id = "${id}" runs under no node of this job; signal it on its host`);
  }
  if (replica.node === null) return refusal(state, `id = "${id}" has no node and no process now`);
  return { state, detail: `${replica.node} sends ${signal} to ${id}`, effects: [], row: { target: id } };
}

/** A command is taken back as far as it has not happened. */
function takeCancel(state: ControllerState, target: string, id: string): CommandOutcome {
  const row = state.fleet.commands[target];
  if (!row) return refusal(state, `target = "${target}" is no command that this job remembers`);
  if (row.answer) return refusal(state, `target = "${target}" is over: ${row.answer.outcome}, ${row.answer.detail}`);
  const undone = undo(state, row);
  if (typeof undone === "string") return refusal(state, `target = "${target}" cannot be taken back: ${undone}`);
  return {
    state: undone,
    detail: `${target} (${row.kind}) is taken back`,
    effects: [],
    row: { target },
    answer: done(`${target} is cancelled by ${id}`),
  };
}

function undo(state: ControllerState, row: CommandRow): ControllerState | string {
  const { kind, target, replacement, before } = row;
  if (kind === "fleet.scale" && before) return withFleet(state, { wanted: before });
  if (kind === "replica.replace" && target && replacement) {
    if (state.fleet.replicas[target]?.leaving !== false) return `${target} is leaving already`;
    return withReplica(withReplica(state, target, { replacedBy: null }), replacement, { leaving: true });
  }
  if (kind === "replica.drain" && target) return undoDrain(state, target);
  return "its order is on the way";
}

function undoDrain(state: ControllerState, id: string): ControllerState | string {
  const member = state.members[id];
  if (!member || member.order?.kind === "replica.stop") return `${id} was let go already`;
  const stays = withMember(state, id, { health: "healthy" });
  const replica = stays.fleet.replicas[id];
  if (!replica) return stays;
  const wanted = { ...stays.fleet.wanted, [replica.role]: stays.fleet.wanted[replica.role] + 1 };
  // It goes through STALE, so that it is healthy only with the committed version.
  return withReplica(withFleet(stays, { wanted }), id, { leaving: false, health: "STALE" });
}
