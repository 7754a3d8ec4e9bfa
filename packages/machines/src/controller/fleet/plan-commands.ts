/** Moves commands of operators on, and says when one is done: by what has happened, never because an order was sent. */
import { replicaRoles } from "@muster/protocol";
import { type Change, type ControllerEffect, command, type ReportOf } from "../events.ts";
import type { ControllerState } from "../state.ts";
import { finish } from "./commands.ts";
import { type CommandAnswer, type CommandRow, isCounted, withFleet, withReplica } from "./fleet-state.ts";
import { placedOn, roomFor } from "./place.ts";

type Over = Exclude<CommandAnswer, { outcome: "refused" }>;

/** The job has ended: what asked for that is done. Pure. */
export function finishStops(state: ControllerState, detail: string): Change<ControllerState> {
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const [id, { kind, answer }] of Object.entries(state.fleet.commands)) {
    if (kind !== "job.stop" || answer !== null) continue;
    const finished = finish(next, id, { outcome: "done", detail });
    next = finished.state;
    effects.push(...finished.effects);
  }
  return { state: next, effects };
}

/** Goes through the commands under way, the oldest first. Pure. */
export function planCommands(state: ControllerState): Change<ControllerState> | null {
  const open = Object.entries(state.fleet.commands)
    .filter(([, { answer }]) => answer === null)
    .sort(([, a], [, b]) => a.seq - b.seq);
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const [id, row] of open) {
    const moved = move(next, id, row);
    if (!moved) continue;
    next = moved.state;
    effects.push(...moved.effects);
  }
  return next === state ? null : { state: next, effects };
}

function move(state: ControllerState, id: string, row: CommandRow): Change<ControllerState> | null {
  const cancelled = cancellerOf(state, id);
  if (cancelled) return finish(state, id, { outcome: "cancelled", detail: `taken back by ${cancelled}` });
  if (row.kind === "job.stop") return null;
  if (state.ending && row.kind !== "replica.drain")
    return finish(state, id, { outcome: "superseded", detail: `the job is ending: ${state.ending.reason}` });
  if (row.kind === "replica.kill") return sendSignal(state, id, row);
  const moved = row.kind === "replica.replace" ? replaceNext(state, row) : state;
  const answer = answerOf(moved, row);
  if (answer) return finish(moved, id, answer);
  return moved === state ? null : { state: moved, effects: [] };
}

function cancellerOf(state: ControllerState, id: string): string | undefined {
  const found = Object.entries(state.fleet.commands).find(
    ([, { kind, target, answer }]) => kind === "command.cancel" && target === id && answer?.outcome === "done",
  );
  return found?.[0];
}

function answerOf(state: ControllerState, row: CommandRow): Over | null {
  if (row.kind === "fleet.scale") return scaleAnswer(state, row);
  const { target } = row;
  if (target === null || state.members[target] || state.fleet.replicas[target]) return null;
  return {
    outcome: "done",
    detail: row.replacement ? `${row.replacement} took the place of ${target}` : `${target} is gone`,
  };
}

function scaleAnswer(state: ControllerState, row: CommandRow): Over | null {
  const later = Object.entries(state.fleet.commands).find(
    ([, each]) => each.kind === "fleet.scale" && each.seq > row.seq && each.answer?.outcome !== "refused",
  );
  if (later) return { outcome: "superseded", detail: `overtaken by ${later[0]}` };
  const asked = replicaRoles.filter((role) => Object.hasOwn(JSON.parse(row.asked) as object, role));
  const isReached = asked.every((role) => {
    const own = Object.values(state.fleet.replicas).filter((each) => each.role === role);
    const healthy = own.filter((each) => isCounted(each) && each.health === "HEALTHY").length;
    return healthy === state.fleet.wanted[role] && !own.some(({ leaving }) => leaving);
  });
  const detail = asked.map((role) => `${role} = ${state.fleet.wanted[role]}`).join(", ");
  return isReached ? { outcome: "done", detail } : null;
}

/** The old one leaves once the new one is healthy; a new one without a node gets one when there is room. */
function replaceNext(state: ControllerState, row: CommandRow): ControllerState {
  const [target, replacement] = [row.target ?? "", row.replacement ?? ""];
  const fresh = state.fleet.replicas[replacement];
  // It goes already, or nobody is there to take its place.
  if (state.fleet.replicas[target]?.leaving !== false || !fresh) return state;
  if (fresh.health === "HEALTHY") return withReplica(state, target, { leaving: true });
  if (fresh.node !== null || fresh.health === "RETIRED") return state;
  const place = roomFor(state, fresh.role);
  return place === null ? state : placedOn(state, replacement, place);
}

/** Once in a term: what a former controller ordered may never have left, and nodes know a command by its id. */
function sendSignal(state: ControllerState, id: string, row: CommandRow): Change<ControllerState> | null {
  const target = row.target ?? "";
  const node = state.members[state.fleet.replicas[target]?.node ?? ""];
  if (!node) return finish(state, id, { outcome: "superseded", detail: `${target} has no node any more` });
  if (row.sentTerm === state.term) return null;
  const { signal } = JSON.parse(row.asked) as { readonly signal: string };
  const commands = { ...state.fleet.commands, [id]: { ...row, sentTerm: state.term } };
  return {
    state: withFleet(state, { commands }),
    effects: [command(node, "node.signal", { commandId: id, id: target, signal })],
  };
}

/** A node sent a signal for a command, or could not. Pure. */
export function applySignalled(state: ControllerState, { body }: ReportOf<"node.signalled">): Change<ControllerState> {
  return finish(state, body.commandId, { outcome: "done", detail: body.detail });
}
