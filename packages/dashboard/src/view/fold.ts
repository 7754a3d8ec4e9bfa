/** What the page knows of a job: the fold of its facts. The server folds all of them, the browser goes on from there. Pure and bounded. */
import { firstNames } from "@muster/base/first-names";
import type { Change, CommandFact, Fact, StepPoint } from "./facts.ts";

/** An event that is news. */
export interface NewsLine {
  readonly seq: number;
  readonly atMs: number;
  readonly event: string;
  readonly line: string;
}

/** One build of the mesh. */
export interface Epoch {
  readonly epoch: number;
  readonly atMs: number;
  readonly members: readonly string[];
}

/** What is known of a job. The newest of each list stands last. */
export interface JobFold {
  /** The last event that is in it. */
  readonly seq: number;
  /** Steps that stand: a roll-back takes back those behind it. Beyond a bound every second one is left out. */
  readonly steps: readonly StepPoint[];
  /** Components of rewards that have a curve: the first that were heard of. */
  readonly parts: readonly string[];
  readonly evals: readonly { readonly version: number; readonly share: number }[];
  readonly epochs: readonly Epoch[];
  readonly news: readonly NewsLine[];
  readonly commands: readonly (CommandFact & { readonly atMs: number })[];
  /** The last that was said of a replica, for those of whom something was said. */
  readonly why: Readonly<Record<string, string>>;
  readonly ended: { readonly outcome: string; readonly reason: string } | null;
}

/** Most rows of each list. */
export const bounds = {
  steps: 2_000,
  parts: 12,
  evals: 1_000,
  epochs: 100,
  news: 300,
  commands: 100,
  why: 200,
} as const;

/** Of a job of which nothing is known. */
export const emptyFold: JobFold = {
  ...{ seq: 0, steps: [], parts: [], evals: [], epochs: [], news: [], commands: [], why: {}, ended: null },
};

/** Takes the next fact; one that it knows already changes nothing. */
export function fold(before: JobFold, fact: Fact): JobFold {
  if (fact.seq <= before.seq) return before;
  const { seq, atMs, event, line } = fact;
  const news = line === null ? before.news : lastOf([...before.news, { seq, atMs, event, line }], bounds.news);
  return changed({ ...before, seq, news }, fact);
}

function changed(state: JobFold, { change, atMs }: Fact): JobFold {
  switch (change?.kind) {
    case "step":
      return stepTaken(state, change);
    case "eval": {
      const { version, share } = change;
      const standing = state.evals.filter((one) => one.version < version);
      return { ...state, evals: thinned([...standing, { version, share }], bounds.evals) };
    }
    case "mesh": {
      const { epoch, members } = change;
      return { ...state, epochs: lastOf([...state.epochs, { epoch, atMs, members }], bounds.epochs) };
    }
    case "about":
      return { ...state, why: whyWith(state.why, change.id, change.why) };
    case "command": {
      const others = state.commands.filter(({ id }) => id !== change.command.id);
      return { ...state, commands: lastOf([...others, { ...change.command, atMs }], bounds.commands) };
    }
    case "started":
      return { ...state, ended: null };
    case "ended":
      return { ...state, ended: { outcome: change.outcome, reason: change.reason } };
    default:
      return state;
  }
}

function stepTaken(state: JobFold, { point, components }: Extract<Change, { kind: "step" }>): JobFold {
  const means = new Map(components.map(({ name, mean }) => [name, mean]));
  const parts = firstNames(state.parts, means.keys(), bounds.parts);
  const shown = parts.map((name) => means.get(name) ?? null);
  return { ...state, parts, steps: stepsWith(state.steps, { ...point, parts: shown }) };
}

/** A step at or before the last one came after a roll-back: what stood from there on does not stand any more. */
function stepsWith(steps: readonly StepPoint[], point: StepPoint): readonly StepPoint[] {
  const last = steps.at(-1);
  const standing = last && point.step <= last.step ? steps.filter(({ step }) => step < point.step) : steps;
  return thinned([...standing, point], bounds.steps);
}

function whyWith(why: JobFold["why"], id: string, text: string): JobFold["why"] {
  const { [id]: _, ...others } = why;
  if (text === "") return others;
  const rows = Object.entries(others);
  return Object.fromEntries([...rows.slice(Math.max(0, rows.length - bounds.why + 1)), [id, text]]);
}

function lastOf<T>(rows: readonly T[], most: number): readonly T[] {
  return rows.length > most ? rows.slice(rows.length - most) : rows;
}

/** Every second row once there are too many; the newest stays. */
function thinned<T>(rows: readonly T[], most: number): readonly T[] {
  return rows.length > most ? rows.filter((_, i) => (rows.length - 1 - i) % 2 === 0) : rows;
}
