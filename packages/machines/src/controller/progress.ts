/** What the watchdog counts: when the job last got on, and the time in which it did not. */
import type { ControllerState } from "./state.ts";

/** The state in which the job just moved on: the watchdog begins anew. */
export function moved(state: ControllerState): ControllerState {
  return { ...state, progress: { ...state.progress, atMs: state.nowMs, stage: 0, spentMs: 0 } };
}

/** From this stage on the watchdog is about the job as a whole, and no arrival begins it anew. */
export const jobStage = 4;

/** The state in which somebody has got weights: who can work has all of the time before it is blamed, and the job no more than it had. */
export function arrived(state: ControllerState): ControllerState {
  const { progress, nowMs } = state;
  const stage = progress.stage < jobStage ? 0 : progress.stage;
  return { ...state, progress: { ...progress, atMs: nowMs, stage, spentMs: spentMsOf(state) } };
}

/** Time in which the job did not get on although nobody was missing. */
export function spentMsOf({ progress, nowMs }: ControllerState): number {
  return (progress.spentMs ?? 0) + (progress.isShort ? 0 : nowMs - progress.atMs);
}
