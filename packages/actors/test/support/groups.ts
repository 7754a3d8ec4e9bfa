/** Trajectories and groups, as small as they may be. */
import type { Trajectory, TrajectoryGroup } from "@muster/protocol";

/** A trajectory of one prompt token and `length` response tokens from version `version`. */
export function trajectory(patch: Partial<Trajectory> & { readonly length?: number; readonly version?: number } = {}) {
  const { length = 2, version = 0, ...rest } = patch;
  const whole: Trajectory = {
    tokens: new Int32Array(1 + length).fill(7),
    promptLength: 1,
    logprobs: new Float32Array(length).fill(-1),
    lossMask: new Uint8Array(length).fill(1),
    reward: 0,
    status: "completed",
    segments: [{ version, from: 0, to: length }],
    ...rest,
  };
  return whole;
}

/** A trajectory that came to nothing, with its original error. */
export function abortedBy(name: string, message: string): Trajectory {
  return trajectory({ length: 0, status: "aborted", segments: [], error: { name, message } });
}

/** A group of a step. */
export function group(step: number, index: number, trajectories: readonly Trajectory[]): TrajectoryGroup {
  return { groupId: `${step}.${index}`, step, index, attempt: 0, trajectories };
}
