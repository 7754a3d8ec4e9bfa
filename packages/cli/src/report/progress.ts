/**
 * The live line of a run. On a terminal it is redrawn in place; anywhere else a line is printed for each
 * tenth of the run and after 15 s without one. It writes to the stream it is given and to nothing else.
 */
import { type Clock, formatDuration } from "@muster/base";
import { LiveLine, type Row } from "../terminal/live-line.ts";
import { painted, paintedNews } from "../terminal/paint.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { cleanLine, clockTime, compact, figure, meanOf, shorten } from "./text.ts";

/** Options of a progress line. */
export interface ProgressOptions {
  /** Where it writes, e.g. standard error. */
  readonly terminal: Terminal;
  readonly clock: Clock;
  /** The time of day, for notes. */
  readonly wallMs: () => number;
}

/** Replicas alive, by role. */
export interface AliveCounts {
  readonly policy: number;
  readonly rollout: number;
  readonly checkpoint: number;
}

/** What changed; whatever is left out stays as it was. */
export interface ProgressUpdate {
  /** Steps to commit in all. */
  readonly steps?: number;
  /** Steps committed so far. */
  readonly step?: number;
  /** Mean reward of the step that was just committed; the line shows the mean of the last ten. */
  readonly reward?: number;
  /** Loss of that step; shown in the same way of jobs without rewards. */
  readonly loss?: number;
  /** Tokens of the step that was just committed. */
  readonly tokens?: number;
  readonly weightVersion?: number;
  readonly alive?: AliveCounts;
  /** What is being recovered from, in a few words that are clean; `null` for nothing. */
  readonly trouble?: string | null;
}

/** A progress line. */
export interface Progress {
  update(change: ProgressUpdate): void;
  /** Prints a line with its time above the progress line: a join, a leave, an incident. Cleaned and cut to one line. Default time: now. */
  note(line: string, atMs?: number): void;
  /** Draws the last state, ends the line and gives the cursor back. Harmless when called twice; later calls do nothing. */
  end(): void;
}

const quietMs = 15_000;
const barMin = 12;
const barMax = 40;
const troubleMax = 32;
const meansOver = 10;
/** Committed steps over which speed is measured. */
const speedWindow = 20;

interface State {
  steps: number;
  step: number;
  weightVersion: number;
  alive: AliveCounts | null;
  trouble: string | null;
  /** Of the last steps. */
  rewards: readonly number[];
  losses: readonly number[];
  /** When the last steps were committed, with their tokens. The first one only opens the window. */
  marks: readonly { readonly atMs: number; readonly step: number; readonly tokens: number }[];
}

/** Starts a progress line. Nothing is written before the first update. */
export function createProgress(options: ProgressOptions): Progress {
  return options.terminal.isLive ? terminalProgress(options) : plainProgress(options);
}

function terminalProgress({ terminal, clock, wallMs }: ProgressOptions): Progress {
  const state = initialState(clock);
  const line = new LiveLine({ terminal, clock, row: (width) => progressRow(state, width, terminal.hasColour) });
  let hasEnded = false;
  return {
    update(change) {
      if (hasEnded) return;
      applyUpdate(state, change, clock.now());
      line.changed();
    },
    note: (text, atMs = wallMs()) => line.note(newsLine(text), `${clockTime(atMs)}  `),
    end() {
      hasEnded = true;
      line.end();
    },
  };
}

function plainProgress({ terminal, clock, wallMs }: ProgressOptions): Progress {
  const state = initialState(clock);
  let hasEnded = false;
  let printed = "";
  let tenth = -1;
  let cancel: (() => void) | null = null;
  const print = (): void => {
    cancel?.();
    cancel = clock.after(quietMs, print);
    printed = plainLine(state);
    terminal.write(`${printed}\n`);
  };
  return {
    update(change) {
      if (hasEnded) return;
      applyUpdate(state, change, clock.now());
      const reached = state.steps > 0 ? Math.floor((state.step * 10) / state.steps) : -1;
      if (reached > tenth) print();
      else cancel ??= clock.after(quietMs, print);
      tenth = Math.max(tenth, reached);
    },
    note(line, atMs = wallMs()) {
      const { hasColour } = terminal;
      if (!hasEnded) terminal.write(`${clockTime(atMs)}  ${paintedNews(newsLine(line), hasColour)}\n`);
    },
    end() {
      if (hasEnded) return;
      hasEnded = true;
      cancel?.();
      if (cancel && plainLine(state) !== printed) terminal.write(`${plainLine(state)}\n`);
    },
  };
}

function initialState(clock: Clock): State {
  const marks = [{ atMs: clock.now(), step: 0, tokens: 0 }];
  return { steps: 0, step: 0, weightVersion: 0, alive: null, trouble: null, rewards: [], losses: [], marks };
}

function applyUpdate(state: State, change: ProgressUpdate, atMs: number): void {
  state.steps = change.steps ?? state.steps;
  state.weightVersion = change.weightVersion ?? state.weightVersion;
  state.alive = change.alive ?? state.alive;
  if (change.trouble !== undefined) state.trouble = change.trouble;
  if (change.reward !== undefined) state.rewards = [...state.rewards, change.reward].slice(-meansOver);
  if (change.loss !== undefined) state.losses = [...state.losses, change.loss].slice(-meansOver);
  if (change.step === undefined) return;
  // A run that goes on from a checkpoint starts at its first report, not at zero.
  const marks = state.step === 0 && change.step > 1 ? [] : state.marks;
  state.marks = [...marks, { atMs, step: change.step, tokens: change.tokens ?? 0 }].slice(-speedWindow - 1);
  state.step = change.step;
}

/** Speed over the last steps, and what it means for the rest. */
function speedOf(state: State): { readonly tokensPerS: number; readonly restMs: number } | null {
  const [first, ...later] = state.marks;
  const last = later.at(-1);
  if (!first || !last || last.atMs <= first.atMs || last.step <= first.step) return null;
  const elapsedMs = last.atMs - first.atMs;
  const tokens = later.reduce((sum, mark) => sum + mark.tokens, 0);
  const restMs = (elapsedMs / (last.step - first.step)) * Math.max(0, state.steps - state.step);
  return { tokensPerS: (tokens / elapsedMs) * 1000, restMs };
}

/** Parts of a line, most important first. */
function partsOf(state: State): readonly string[] {
  const { alive, rewards, losses, step, steps, weightVersion } = state;
  const speed = speedOf(state);
  const isDone = steps > 0 && step >= steps;
  return [
    `step ${String(step).padStart(String(steps).length)}/${steps}`,
    rewards.length > 0 ? `reward ${figure(meanOf(rewards), 3)}` : "",
    rewards.length === 0 && losses.length > 0 ? `loss ${figure(meanOf(losses), 3)}` : "",
    speed && !isDone ? `${formatDuration(speed.restMs)} left` : "",
    alive ? `policy ${alive.policy} rollout ${alive.rollout} checkpoint ${alive.checkpoint}` : "",
    speed && speed.tokensPerS > 0 ? `${compact(speed.tokensPerS)} tok/s` : "",
    `v${weightVersion}`,
  ].filter(Boolean);
}

function plainLine(state: State): string {
  return [...partsOf(state), ...(state.trouble === null ? [] : [state.trouble])].join("  ");
}

/** Fits the parts into `width`: the least important ones go first, what remains is the bar, or what is wrong now. */
function progressRow(state: State, width: number, hasColour: boolean): Row {
  const [head = "", ...rest] = partsOf(state);
  const { trouble } = state;
  let kept = rest;
  const sizeOf = (parts: readonly string[]): number => [head, ...parts].join("  ").length + 2;
  const middleMin = trouble === null ? barMin : Math.min(trouble.length, troubleMax);
  while (kept.length > 0 && sizeOf(kept) + middleMin > width) kept = kept.slice(0, -1);
  const room = Math.min(barMax, width - sizeOf(kept));
  const middle = trouble === null ? bar(state, room) : shorten(trouble, Math.max(room, barMin));
  const before = room >= barMin ? `${head}  ${middle}` : head;
  const plain = [before, ...kept].join("  ").slice(0, width);
  const isShown = trouble !== null && room >= barMin && plain.includes(middle);
  return { plain, painted: isShown ? plain.replace(middle, painted(middle, "red", hasColour)) : plain };
}

function bar({ step, steps }: State, width: number): string {
  const done = steps > 0 ? Math.max(0, Math.min(width, Math.floor((step / steps) * width))) : 0;
  return "━".repeat(done) + "─".repeat(Math.max(0, width - done));
}

/** A line of news without what a terminal would obey; the blanks in the place of its sign stay. */
function newsLine(text: string): string {
  return `${/^ */.exec(text)?.[0] ?? ""}${cleanLine(text)}`;
}
