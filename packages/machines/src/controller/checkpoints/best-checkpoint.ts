/** The checkpoint that was best at held-out prompts: it stays beside the newest ones, because training may unlearn. */
import type { Body } from "@muster/protocol";
import { announce, type Change } from "../events.ts";
import { type HeldOut, type HeldOutResult, shareOf } from "../groups/held-out-state.ts";
import type { ControllerState, KeptCheckpoint } from "../state.ts";

/** Results that wait for a checkpoint of their version, at most. */
const resultsMax = 64;

/** A complete evaluation is remembered until it is known whether its version is in a checkpoint. Pure. */
export function withResult(heldOut: HeldOut, result: HeldOutResult): HeldOut {
  const others = (heldOut.results ?? []).filter(({ version }) => version !== result.version);
  return { ...heldOut, results: [...others, result].slice(-resultsMax) };
}

/**
 * Looks for a checkpoint whose version did better than the best one so far, or as well and later; says which one it is when it changes. Called when
 * a checkpoint or an evaluation is complete, in whatever order they come. Pure.
 */
export function noteBest({ state, effects }: Change<ControllerState>): Change<ControllerState> {
  const { heldOut, checkpoints, fallback } = state;
  if (!heldOut?.results) return { state, effects };
  const known = [...fallback.older, ...(checkpoints.saved ? [checkpoints.saved] : [])];
  const judged = known.flatMap((kept) => {
    const result = heldOut.results?.find(({ version }) => version === kept.version);
    return result ? [{ ...kept, ...result }] : [];
  });
  const best = judged.reduce((a: HeldOut["checkpoint"], b) => (a && !isBetter(b, a) ? a : b), heldOut.checkpoint);
  if (!best || best === heldOut.checkpoint) return { state, effects };
  const { step, version, path, prompts, correct } = best;
  const lineage = state.weights?.lineage ?? state.restore.lineage;
  const said = announce("checkpoint.best", { step, lineage, version, path, prompts, correct });
  return { state: { ...state, heldOut: { ...heldOut, checkpoint: best } }, effects: [...effects, said] };
}

function isBetter(a: HeldOutResult, b: HeldOutResult): boolean {
  return shareOf(a) > shareOf(b) || (shareOf(a) === shareOf(b) && a.version > b.version);
}

/** What an order to save says of it: retention spares it. Pure. */
export function sparedOf({ heldOut }: ControllerState): Pick<Body<"checkpoint.save">, "best"> {
  const best = heldOut?.checkpoint;
  return best ? { best: { step: best.step, version: best.version } } : {};
}

/** What is left of evaluations when the job goes back to a version: what came later is of a line that is left behind. Pure. */
export function heldOutUpTo(heldOut: HeldOut, last: KeptCheckpoint["version"]): HeldOut {
  const { checkpoint, results = [], ...rest } = heldOut;
  const stands = checkpoint && checkpoint.version <= last ? { checkpoint } : {};
  return { ...rest, ...stands, results: results.filter(({ version }) => version <= last) };
}
