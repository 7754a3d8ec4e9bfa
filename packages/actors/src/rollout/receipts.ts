/** What the controller is told of finished groups: counts and sums, never tokens. */
import type { Body, GroupReceipt, TrajectoryGroup } from "@muster/protocol";

/**
 * Receipt of a group that lies in message `streamSeq` of the groups stream. `version` is the one it was leased for: a group of
 * nothing but aborted trajectories has no other, and must not look older than it is. Pure.
 */
export function receiptOf(
  group: TrajectoryGroup,
  { streamSeq, version }: Pick<GroupReceipt, "streamSeq" | "version">,
): GroupReceipt {
  const valid = group.trajectories.filter(({ status }) => status !== "aborted");
  const versions = valid.flatMap(({ segments }) => segments.map(({ version }) => version));
  return {
    step: group.step,
    index: group.index,
    attempt: group.attempt,
    streamSeq,
    version: versions.length > 0 ? Math.min(...versions) : version,
    completed: valid.length,
    aborted: group.trajectories.length - valid.length,
    tokens: valid.reduce((sum, { logprobs }) => sum + logprobs.length, 0),
    rewardSum: valid.reduce((sum, { reward }) => sum + reward, 0),
  };
}

/** Errors of aborted trajectories, equal ones counted together; at most 32 kinds. Pure. */
export function causesOf(groups: readonly TrajectoryGroup[]): Body<"groups.completed">["causes"] {
  const causes = new Map<string, { name: string; message: string; count: number }>();
  for (const { error } of groups.flatMap(({ trajectories }) => trajectories)) {
    if (!error) continue;
    const key = `${error.name}: ${error.message}`;
    const known = causes.get(key) ?? { ...error, count: 0 };
    causes.set(key, { ...known, count: known.count + 1 });
  }
  return [...causes.values()].slice(0, 32);
}
