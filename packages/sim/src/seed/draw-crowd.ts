/** Jobs as large as real ones: where other profiles have a handful of members and groups, these have as many as a cluster. */
import type { Random } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { shippedConfig } from "./shipped.ts";

/** Members of the jobs of a profile, of all roles together. */
export const crowdSizes: Readonly<Record<string, number>> = { crowd: 1_000, multitude: 10_000 };

/** Each trainer has a micro-shard, and of those there are at most so many. */
const microShards = 256;

/** A mesh is told to each of its members by all names, so that its cost is the square of them; ten thousand members have no more than the thousand. */
const trainersMax = 128;

/** A large job made of a drawn one: bounds, time-outs and what is done about failures are those that are shipped. Pure. */
export function crowdOf(drawn: JobConfig, members: number, random: Random): JobConfig {
  const { limits, timing, health, failure } = shippedConfig();
  const policy = Math.min(trainersMax, Math.round(members * (0.065 + 0.06 * random.next())));
  const checkpoint = 3 + random.below(3);
  const groupsPerStep = Math.min(4_096, Math.round(members * (0.15 + 0.15 * random.next())));
  return {
    ...drawn,
    ...{ limits, timing, health, failure },
    // One of ten thousand takes minutes.
    steps: members > 1_000 ? 1 : 2,
    replicas: { ...drawn.replicas, policy, rollout: members - policy - checkpoint, checkpoint },
    initReplicas: { policy: Math.ceil(policy / 2), rollout: Math.ceil(members / 4) },
    model: { ...drawn.model, maxContext: 128 },
    sampling: { ...drawn.sampling, maxNewTokens: 64 },
    batch: { groupsPerStep, groupSize: 4, minibatches: 1, microShards },
    checkpoint: { ...drawn.checkpoint, everySteps: 1 },
  };
}
