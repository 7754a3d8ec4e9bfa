/**
 * Commands of operators: taken once per id, answered in public, finished by the planners (semantics 6.16). A command that was seen before
 * is answered again and done no second time, also by a later controller.
 */
import { commandKinds } from "@muster/protocol";
import { announce, type Change, type ControllerEffect, type ControllerEvent } from "../events.ts";
import { type ControllerState, withStale } from "../state.ts";
import type { CommandOutcome } from "./command-outcome.ts";
import { type CommandAnswer, type CommandRow, withFleet } from "./fleet-state.ts";
import { type CommandEvent, takeCommand } from "./take-command.ts";

/** Finished commands remembered, and commands that may be under way. */
const finishedMax = 512;
const runningMax = 128;

/** True for what only an operator may ask. Pure. */
export function isCommand(event: ControllerEvent): event is CommandEvent {
  return kinds.has(event.type);
}

const kinds: ReadonlySet<string> = new Set(commandKinds);

/**
 * Takes a command, refuses it with the reason, or answers again what was said before. From anybody but an operator it counts for
 * nothing: the broker lets only operators speak as such. Pure.
 */
export function applyCommand(state: ControllerState, event: CommandEvent): Change<ControllerState> {
  if (event.role !== "operator") return { state: withStale(state), effects: [] };
  const { commandId, ...rest } = event.body;
  const id = commandId ?? `auto-${state.fleet.commandsMade + 1}`;
  const by = `${event.from} ${event.incarnation}`.slice(0, 128);
  const asked = JSON.stringify(rest).slice(0, 2000);
  const said: Said = { id, kind: event.type, by, asked };
  const known = state.fleet.commands[id];
  if (known) return { state, effects: answeredAgain(state, said, known) };
  const running = Object.values(state.fleet.commands).filter(({ answer }) => answer === null).length;
  const taken: CommandOutcome =
    running >= runningMax
      ? { state, refusal: `${running} commands are under way already; wait for one, or cancel one` }
      : takeCommand(state, event, id);
  const answer: CommandAnswer | null =
    "refusal" in taken ? { outcome: "refused", detail: taken.refusal } : (taken.answer ?? null);
  const row: CommandRow = {
    ...{ kind: event.type, by, asked, seq: state.fleet.commandsMade + 1, answer },
    ...{ target: null, replacement: null, before: null, sentTerm: 0 },
    ...("refusal" in taken ? {} : taken.row),
  };
  const commands = bounded({ ...taken.state.fleet.commands, [id]: row });
  const next = withFleet(taken.state, { commands, commandsMade: state.fleet.commandsMade + 1 });
  if ("refusal" in taken) return { state: next, effects: [refused(said, taken.refusal)] };
  const effects: ControllerEffect[] = [accepted(said, taken.detail), ...taken.effects];
  return { state: next, effects: answer ? [...effects, over(id, row, answer)] : effects };
}

/** Writes down how a command ended, and says so. Pure. */
export function finish(
  state: ControllerState,
  id: string,
  answer: Exclude<CommandAnswer, { outcome: "refused" }>,
): Change<ControllerState> {
  const row = state.fleet.commands[id];
  if (!row || row.answer) return { state, effects: [] };
  const commands = { ...state.fleet.commands, [id]: { ...row, answer } };
  return { state: withFleet(state, { commands }), effects: [over(id, row, answer)] };
}

interface Said {
  readonly id: string;
  readonly kind: string;
  readonly by: string;
  readonly asked: string;
}

function answeredAgain(state: ControllerState, said: Said, known: CommandRow): readonly ControllerEffect[] {
  if (known.kind !== said.kind || known.asked !== said.asked) {
    const reason = `command id "${said.id}" stands for ${known.kind} ${known.asked} already; draw another id`;
    return [refused(said, reason)];
  }
  const { answer } = known;
  if (answer?.outcome === "refused") return [refused(said, answer.detail)];
  const detail = `known since command ${known.seq} of ${state.fleet.commandsMade}`;
  const again = accepted({ ...said, by: known.by }, detail);
  return answer ? [again, over(said.id, known, answer)] : [again];
}

const accepted = ({ id, kind, by, asked }: Said, detail: string): ControllerEffect =>
  announce("command.accepted", { commandId: id, kind, by, asked, detail: detail.slice(0, 2000) });

const refused = ({ id, kind, by, asked }: Said, reason: string): ControllerEffect =>
  announce("command.refused", { commandId: id, kind, by, asked, reason: reason.slice(0, 2000) });

function over(id: string, { kind, by }: CommandRow, { outcome, detail }: CommandAnswer): ControllerEffect {
  const end = outcome === "refused" ? "done" : outcome;
  return announce("command.done", { commandId: id, kind, by, outcome: end, detail: detail.slice(0, 2000) });
}

/** The oldest finished ones are forgotten first; who runs stays. */
function bounded(commands: Readonly<Record<string, CommandRow>>): Readonly<Record<string, CommandRow>> {
  const finished = Object.entries(commands).filter(([, { answer }]) => answer !== null);
  if (finished.length <= finishedMax) return commands;
  const [oldest] = finished.sort(([, a], [, b]) => a.seq - b.seq);
  return Object.fromEntries(Object.entries(commands).filter(([id]) => id !== oldest?.[0]));
}
