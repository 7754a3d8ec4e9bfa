/** What the controller is told of finished groups: counts and sums, never tokens. */
import { causeKeyOf } from "@muster/machines";
import {
  type Body,
  type CauseCount,
  type GroupReceipt,
  type JobConfig,
  type StreamPlace,
  type TrajectoryError,
  type TrajectoryGroup,
  validMinOf,
} from "@muster/protocol";

/**
 * Receipt of a group that lies at `place` in the groups stream. `version` is the one it was leased for: a group of
 * nothing but aborted trajectories has no other, and must not look older than it is. A trajectory that is drawn and has no other one to compare it
 * with teaches nothing, so it is not counted as trained; `training` says whether they are drawn. Pure.
 */
export function receiptOf(
  group: TrajectoryGroup,
  {
    place,
    version,
    training,
  }: { readonly place: StreamPlace } & Pick<GroupReceipt, "version"> & Pick<JobConfig, "training">,
): GroupReceipt {
  const healthy = group.trajectories.filter(({ status }) => status !== "aborted");
  const valid = healthy.length < validMinOf({ training }) ? [] : healthy;
  const versions = valid.flatMap(({ segments }) => segments.map(({ version }) => version));
  return {
    step: group.step,
    index: group.index,
    attempt: group.attempt,
    ...place,
    version: versions.length > 0 ? Math.min(...versions) : version,
    completed: valid.length,
    aborted: group.trajectories.length - valid.length,
    tokens: valid.reduce((sum, { logprobs }) => sum + logprobs.length, 0),
    rewardSum: valid.reduce((sum, { reward }) => sum + reward, 0),
  };
}

/** Root causes of aborted trajectories, equal ones counted together; at most 32. Pure. */
export function causesOf(groups: readonly TrajectoryGroup[]): Body<"groups.completed">["causes"] {
  const causes = new Map<string, CauseCount>();
  for (const { groupId, trajectories } of groups) {
    for (const [at, { error }] of trajectories.entries()) {
      if (!error) continue;
      const cause = causeOf(error, `${groupId}/${at}`);
      const known = causes.get(causeKeyOf(cause)) ?? cause;
      causes.set(causeKeyOf(cause), { ...known, count: known.count + 1 });
    }
  }
  return [...causes.values()].slice(0, 32);
}

function causeOf(error: TrajectoryError, sample: string): CauseCount {
  const { name, message, kind, stack } = error;
  const frame = /^\s*at (.+)$/m.exec(stack ?? "")?.[1]?.slice(0, 300);
  return {
    name,
    message,
    count: 0,
    sample,
    ...(kind ? { failure: kind } : {}),
    ...(frame ? { frame } : {}),
    ...(stack ? { stack } : {}),
  };
}
