/**
 * The ceiling on what is given up (semantics 3, "A ceiling"). Isolation keeps one bad trajectory from hurting its siblings; it must not
 * hide that nearly all of them are bad. Root causes are counted, and beyond the ceiling the job ends with them, or says so.
 */
import { type CauseCount, decideFailure, type FailureKind, failureRuleOf, type GroupReceipt } from "@muster/protocol";
import { causeKeyOf } from "../../cause-key.ts";
import { announce, type Change } from "../events.ts";
import { type ControllerState, endingWith, type GivenUp } from "../state.ts";

/** Root causes that are remembered. */
const causesMax = 32;

/** Parts that the window is kept in, so that its table stays small however large it is. */
const partsMax = 64;

/** Longest sentence about root causes. */
const reasonMax = 1_800;

/** True when a root cause was met before. Pure. */
export function isKnownCause(state: ControllerState, cause: CauseCount): boolean {
  const key = causeKeyOf(cause);
  return state.givenUp.causes.some((known) => causeKeyOf(known) === key);
}

/** Takes note of groups that were settled for the first time, and of why some of their trajectories were aborted. Pure. */
export function noteReceipts(
  state: ControllerState,
  receipts: readonly GroupReceipt[],
  causes: readonly CauseCount[],
): ControllerState {
  const completed = receipts.reduce((sum, receipt) => sum + receipt.completed, 0);
  const aborted = receipts.reduce((sum, receipt) => sum + receipt.aborted, 0);
  if (completed + aborted === 0) return state;
  return note(state, { completed, givenUp: aborted, causes });
}

/** Takes note of a group that was quarantined: the cause counts for each of its trajectories. Pure. */
export function noteQuarantined(state: ControllerState, cause: Omit<CauseCount, "count">): ControllerState {
  const givenUp = state.plan.groupSize;
  return note(state, { completed: 0, givenUp, causes: [{ ...cause, count: givenUp }] });
}

interface Noted {
  readonly completed: number;
  readonly givenUp: number;
  readonly causes: readonly CauseCount[];
}

function note(state: ControllerState, noted: Noted): ControllerState {
  const { recent, causes, run } = state.givenUp;
  const givenUp: GivenUp = {
    ...state.givenUp,
    recent: extended(recent, noted, state.plan.failure.abortWindow),
    causes: noted.causes.reduce(counted, causes),
    run: runOf(run, noted),
  };
  return { ...state, givenUp };
}

/** The window with one more part; parts that it no longer needs are dropped. */
function extended(recent: GivenUp["recent"], { completed, givenUp }: Noted, window: number): GivenUp["recent"] {
  const last = recent.at(-1);
  const isRoom = last !== undefined && last.trajectories < window / partsMax;
  const added = { trajectories: completed + givenUp, givenUp };
  const parts = [...recent];
  if (isRoom)
    parts[recent.length - 1] = {
      trajectories: last.trajectories + added.trajectories,
      givenUp: last.givenUp + added.givenUp,
    };
  else parts.push(added);
  let from = 0;
  let size = parts.reduce((sum, part) => sum + part.trajectories, 0);
  for (const { trajectories } of parts) {
    if (size - trajectories < window) break;
    size -= trajectories;
    from += 1;
  }
  return parts.slice(from);
}

function counted(causes: readonly CauseCount[], cause: CauseCount): readonly CauseCount[] {
  const key = causeKeyOf(cause);
  const known = causes.find((other) => causeKeyOf(other) === key);
  if (known) return causes.map((other) => (other === known ? { ...other, count: other.count + cause.count } : other));
  if (causes.length < causesMax) return [...causes, cause];
  const rarest = causes.reduce((least, other) => (other.count < least.count ? other : least));
  return [...causes.filter((other) => other !== rarest), cause];
}

/** A healthy trajectory, or another cause, ends the run. */
function runOf(run: GivenUp["run"], { completed, givenUp, causes }: Noted): GivenUp["run"] {
  const [first, ...others] = causes;
  if (!first || others.length > 0) return { key: "", count: 0 };
  const key = causeKeyOf(first);
  return { key, count: (completed === 0 && run.key === key ? run.count : 0) + (completed === 0 ? givenUp : 0) };
}

/** Ends the job, or raises an alarm, when too much is given up, or when a failure's rule says that the job ends with it. Pure. */
export function planCeiling(state: ControllerState): Change<ControllerState> | null {
  const { plan, ending, givenUp } = state;
  if (ending) return null;
  const fatal = givenUp.causes.find(({ failure = "user_error" }) => isFatal(state, failure));
  if (fatal) return end(state, `a failure ends the job: ${sayCause(fatal)}`);
  const excess = excessOf(state);
  if (excess === null) return givenUp.alarmed ? { state: withAlarmed(state, false), effects: [] } : null;
  const detail = `${excess}: ${sayCauses(state)}`;
  if (plan.failure.atCeiling === "abort") return end(state, detail);
  if (givenUp.alarmed) return null;
  return { state: withAlarmed(state, true), effects: [announce("alarm.raised", { alarm: "given-up", detail })] };
}

function isFatal(state: ControllerState, kind: FailureKind): boolean {
  const { failure } = state.plan;
  return decideFailure(failure, kind, failureRuleOf(failure, kind).attempts).action === "abort";
}

/** Which ceiling is passed, in words; `null` when none is. */
function excessOf({ plan, givenUp }: ControllerState): string | null {
  const { abortShareMax, abortWindow, sameErrorMax } = plan.failure;
  const bad = givenUp.recent.reduce((sum, part) => sum + part.givenUp, 0);
  const seen = givenUp.recent.reduce((sum, part) => sum + part.trajectories, 0);
  // The share is of the whole window, also while it fills: a few failures at the start are no trend.
  if (abortShareMax < 1 && bad > abortShareMax * abortWindow)
    return `${bad} of the last ${seen} trajectories were given up, over failure.abort_share_max = ${abortShareMax} of ${abortWindow}`;
  if (sameErrorMax > 0 && givenUp.run.count > sameErrorMax)
    return `${givenUp.run.count} trajectories in a row were given up for one cause, over failure.same_error_max = ${sameErrorMax}`;
  return null;
}

function withAlarmed(state: ControllerState, alarmed: boolean): ControllerState {
  return { ...state, givenUp: { ...state.givenUp, alarmed } };
}

function end(state: ControllerState, reason: string): Change<ControllerState> {
  return { state: endingWith(state, "failed", reason.slice(0, reasonMax)), effects: [] };
}

/** Root causes, the most frequent first. */
function sayCauses(state: ControllerState): string {
  const causes = [...state.givenUp.causes].sort((a, b) => b.count - a.count);
  return causes.slice(0, 5).map(sayCause).join("; ");
}

function sayCause({ count, name, message, frame, sample }: CauseCount): string {
  const where = frame ? ` at ${frame.slice(0, 160)}` : "";
  return `${count} × ${name}: ${message.slice(0, 200)}${where}${sample ? ` (first: ${sample})` : ""}`;
}
