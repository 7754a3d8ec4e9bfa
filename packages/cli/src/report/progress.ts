/**
 * The live line of a run. On a terminal it is redrawn in place, at most five times a second; anywhere else a line is printed for each
 * tenth of the run and after 15 s without one. It writes to the stream it is given and to nothing else.
 */
import { type Clock, formatDuration } from "@muster/base";
import { cleanLine, compact, figure, meanOf } from "./text.ts";

/** Options of a progress line. */
export interface ProgressOptions {
  /** Where it writes, e.g. `process.stderr`. */
  readonly stream: { write(text: string): unknown };
  /** True when the stream is a terminal that obeys cursor sequences. */
  readonly isTTY: boolean;
  readonly clock: Clock;
  /** Width of the terminal, asked at each redraw when it is a function. */
  readonly columns: number | (() => number);
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
  /** Tokens of the step that was just committed. */
  readonly tokens?: number;
  readonly weightVersion?: number;
  readonly alive?: AliveCounts;
}

/** A progress line. */
export interface Progress {
  update(change: ProgressUpdate): void;
  /** Prints a line above the progress line: a join, a leave, an incident. Cleaned and cut to one line. */
  note(line: string): void;
  /** Draws the last state, ends the line and gives the cursor back. Harmless when called twice; later calls do nothing. */
  end(): void;
}

const redrawMs = 200;
const quietMs = 15_000;
const rewardsShown = 10;
/** Committed steps over which speed is measured. */
const speedWindow = 20;

interface State {
  steps: number;
  step: number;
  weightVersion: number;
  alive: AliveCounts | null;
  rewards: readonly number[];
  /** When the last steps were committed, with their tokens. The first one only opens the window. */
  marks: readonly { readonly atMs: number; readonly step: number; readonly tokens: number }[];
}

/** Starts a progress line. Nothing is written before the first update. */
export function createProgress(options: ProgressOptions): Progress {
  return options.isTTY ? terminalProgress(options) : plainProgress(options);
}

function terminalProgress({ stream, clock, columns }: ProgressOptions): Progress {
  const state = initialState(clock);
  let isOpen = false;
  let hasEnded = false;
  let drawnAtMs = Number.NEGATIVE_INFINITY;
  let cancel: (() => void) | null = null;
  const draw = (): void => {
    cancel?.();
    cancel = null;
    drawnAtMs = clock.now();
    // One column stays free: a full line would wrap.
    const width = Math.max(20, (typeof columns === "function" ? columns() : columns) - 1);
    stream.write(`${isOpen ? "" : "\u001b[?25l"}\r${progressLine(state, width)}\u001b[K`);
    isOpen = true;
  };
  return {
    update(change) {
      if (hasEnded) return;
      applyUpdate(state, change, clock.now());
      const waitMs = drawnAtMs + redrawMs - clock.now();
      if (waitMs <= 0) draw();
      else cancel ??= clock.after(waitMs, draw);
    },
    note(line) {
      if (hasEnded) return;
      stream.write(`${isOpen ? "\r\u001b[K" : ""}${cleanLine(line)}\n`);
      if (isOpen) draw();
    },
    end() {
      if (hasEnded) return;
      if (isOpen) draw();
      hasEnded = true;
      cancel?.();
      if (isOpen) stream.write("\n\u001b[?25h");
    },
  };
}

function plainProgress({ stream, clock }: ProgressOptions): Progress {
  const state = initialState(clock);
  let hasEnded = false;
  let printed = "";
  let tenth = -1;
  let cancel: (() => void) | null = null;
  const print = (): void => {
    cancel?.();
    cancel = clock.after(quietMs, print);
    printed = plainLine(state);
    stream.write(`${printed}\n`);
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
    note(line) {
      if (!hasEnded) stream.write(`${cleanLine(line)}\n`);
    },
    end() {
      if (hasEnded) return;
      hasEnded = true;
      cancel?.();
      if (cancel && plainLine(state) !== printed) stream.write(`${plainLine(state)}\n`);
    },
  };
}

function initialState(clock: Clock): State {
  const marks = [{ atMs: clock.now(), step: 0, tokens: 0 }];
  return { steps: 0, step: 0, weightVersion: 0, alive: null, rewards: [], marks };
}

function applyUpdate(state: State, change: ProgressUpdate, atMs: number): void {
  state.steps = change.steps ?? state.steps;
  state.weightVersion = change.weightVersion ?? state.weightVersion;
  state.alive = change.alive ?? state.alive;
  if (change.reward !== undefined) state.rewards = [...state.rewards, change.reward].slice(-rewardsShown);
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
  const { alive, rewards, step, steps, weightVersion } = state;
  const speed = speedOf(state);
  const isDone = steps > 0 && step >= steps;
  return [
    `step ${String(step).padStart(String(steps).length)}/${steps}`,
    rewards.length > 0 ? `reward ${figure(meanOf(rewards), 3)}` : "",
    speed && !isDone ? `${formatDuration(speed.restMs)} left` : "",
    alive ? `policy ${alive.policy} rollout ${alive.rollout} checkpoint ${alive.checkpoint}` : "",
    speed && speed.tokensPerS > 0 ? `${compact(speed.tokensPerS)} tok/s` : "",
    `v${weightVersion}`,
  ].filter(Boolean);
}

function plainLine(state: State): string {
  return partsOf(state).join("  ");
}

/** Fits the parts into `width`: the least important ones go first, what remains is the bar. */
function progressLine(state: State, width: number): string {
  const barMin = 12;
  const [head = "", ...rest] = partsOf(state);
  let kept = rest;
  const sizeOf = (parts: readonly string[]): number => [head, ...parts].join("  ").length + 2;
  while (kept.length > 0 && sizeOf(kept) + barMin > width) kept = kept.slice(0, -1);
  const room = Math.min(40, width - sizeOf(kept));
  const parts = room >= barMin ? [head, bar(state, room), ...kept] : [head, ...kept];
  return parts.join("  ").slice(0, width);
}

function bar({ step, steps }: State, width: number): string {
  const done = steps > 0 ? Math.min(width, Math.floor((step / steps) * width)) : 0;
  return "━".repeat(done) + "─".repeat(width - done);
}
