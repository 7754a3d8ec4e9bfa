/** What held-out prompts say of the training: a job that gets worse at them than it was is told of, since its rewards may not show it. */
import { withResult } from "../checkpoints/best-checkpoint.ts";
import { announce, type Change } from "../events.ts";
import type { ControllerState } from "../state.ts";
import { type HeldOut, type HeldOutResult, shareOf } from "./held-out-state.ts";

/** A fall of this share of the prompts is one, when it can not be chance. */
const fallMin = 0.1;
/** Standard errors of the two shares that chance is given. */
const sigmas = 3;

/** Takes the result of an evaluation; the first one far below the best is an alarm, and again only after one that was not. Pure. */
export function noteHeldOut(state: ControllerState, result: HeldOutResult): Change<ControllerState> {
  // no mutant: the first result is not below itself, whatever was told
  const { best = result, isTold = false } = state.heldOut ?? {};
  const fallen = isFarBelow(result, best);
  const better = shareOf(result) >= shareOf(best) ? result : best;
  const heldOut: HeldOut = withResult({ ...state.heldOut, best: better, isTold: fallen }, result);
  const detail = `held-out exact match fell from ${shown(best)} at version ${best.version} to ${shown(result)} at version ${result.version}: a lower optimizer.lr or a longer optimizer.lr_warmup_steps may help`;
  const isNews = fallen && !isTold;
  return {
    state: { ...state, heldOut },
    effects: isNews ? [announce("alarm.raised", { alarm: "held-out", detail })] : [],
  };
}

function isFarBelow(result: HeldOutResult, best: HeldOutResult): boolean {
  const fall = shareOf(best) - shareOf(result);
  return fall >= fallMin && fall > sigmas * Math.sqrt(varianceOf(result) + varianceOf(best));
}

/** Of a share that was counted on so many prompts; none of them right or wrong is not certain of the next one. */
function varianceOf({ correct, prompts }: HeldOutResult): number {
  const share = (correct + 1) / (prompts + 2);
  return (share * (1 - share)) / prompts;
}

function shown(result: HeldOutResult): string {
  return `${(100 * shareOf(result)).toFixed(1)} %`;
}
