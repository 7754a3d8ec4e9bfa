/**
 * What stands of a job that went back: the steps and evaluations that led to its weights. Those that were left behind were run again, so
 * that two runs with the same weights have the same ones, whatever happened on the way. Pure.
 */
import type { Body } from "@muster/protocol";

/** A point of a job: versions of one lineage follow each other, and another lineage goes on from an earlier version. */
interface Point {
  readonly lineage: number;
  readonly version: number;
}

/**
 * The commits that stand, in order of version, each once. One is left behind when a later lineage has a commit of its version or of an
 * earlier one, or when the job ended in a later lineage before it. The order in which the commits were heard does not matter.
 */
export function standingOf<T extends Point>(commits: Iterable<T>, ended: Point | null): readonly T[] {
  const newestFirst = [...commits].sort((a, b) => b.lineage - a.lineage || b.version - a.version);
  const standing: T[] = [];
  let below = ended ? ended.version + 1 : Number.POSITIVE_INFINITY;
  for (const commit of newestFirst) {
    if (commit.version >= below) continue;
    standing.push(commit);
    below = commit.version;
  }
  return standing.reverse();
}

/** The last evaluation of each version that stands, in order of version. */
export function standingEvaluations(
  heard: readonly Body<"eval.finished">[],
  newest: number,
): readonly Body<"eval.finished">[] {
  const byVersion = new Map(heard.map((body) => [body.version, body]));
  return [...byVersion.values()].filter(({ version }) => version <= newest).sort((a, b) => a.version - b.version);
}

/** Of the checkpoints that were called best those that stand after a commit: another lineage leaves behind what is as new as its commits. */
export function standingBests<T extends Point>(bests: readonly T[], { lineage, version }: Point): readonly T[] {
  return bests.filter((best) => best.lineage >= lineage || best.version < version);
}
