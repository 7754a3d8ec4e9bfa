/** Groups that are drawn in part: what whoever goes on with them needs to know. */
import type { BegunGroup, BegunTrajectory } from "@muster/protocol";
import type { Generated } from "../engine.ts";

/** A row of responses, some of them interrupted, as the next holder takes them over; `resumed` is what came from the holder before. Pure. */
export function begunGroupOf(
  { step, index }: Pick<BegunGroup, "step" | "index">,
  row: readonly Generated[],
  resumed: BegunGroup["responses"] | undefined,
): BegunGroup {
  const responses = row.map((one, at) => ({
    responseIds: one.responseIds,
    logprobs: one.logprobs,
    finish: one.finish === "abort" ? null : one.finish,
    segments: segmentsOf(one, resumed?.[at]),
  }));
  return { step, index, responses };
}

/** Response tokens in a row. Pure. */
export function tokensOf(row: readonly Pick<Generated, "responseIds">[]): number {
  return row.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
}

/**
 * Which weights drew which tokens: those of earlier holders, then these. Of what spans an update only the ends are known: the older
 * version is the safe one for staleness.
 */
export function segmentsOf(
  { responseIds, versionAtStart }: Generated,
  resumed: BegunTrajectory | undefined,
): BegunTrajectory["segments"] {
  const earlier = resumed?.segments ?? [];
  const from = resumed?.responseIds.length ?? 0;
  const to = responseIds.length;
  const last = earlier.at(-1);
  if (to === from) return earlier;
  // One version is one segment, however often it was interrupted: the result has the bits of one that never was.
  if (last?.version === versionAtStart) return [...earlier.slice(0, -1), { ...last, to }];
  return [...earlier, { version: versionAtStart, from, to }];
}
