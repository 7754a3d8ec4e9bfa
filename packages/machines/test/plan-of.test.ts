/** What the controller and its failure detector take out of a job configuration. */
import { detectorTimingOf } from "@muster/machines";
import { planOf } from "@muster/machines/controller";
import { type JobConfig, minibatchesMax } from "@muster/protocol";
import { describe, expect, it } from "vitest";

/** As much of a configuration as the controller reads. */
function configWith(patch: object = {}): JobConfig {
  return {
    replicas: { policy: 2, rollout: 3, checkpoint: 1 },
    batch: { groupsPerStep: 24, groupSize: 4, microShards: 8 },
    rollout: { fanOut: 3, ranks: 2 },
    model: { maxContext: 128 },
    evaluation: { everySteps: 3, prompts: 100 },
    checkpoint: { everySteps: 2, keep: 4, directory: "/c", memoryEvery: 1 },
    optimizer: { lr: 0.1, lrWarmupSteps: 2, lrFinalRatio: 0.5 },
    timing: { deadAfterMs: 10_000, heartbeatIntervalMs: 1_000, suspectAfterMs: 3_000 },
    health: { readmitAfterMs: 50, progressMs: 9, phi: 8, missedBeats: 5, failureThreshold: 3 },
    ...{ data: { tcpHost: null }, limits: {} },
    ...patch,
  } as unknown as JobConfig;
}

describe("the controller's plan", () => {
  it("has the trajectories of a group, and the schedule of the learning rate that is the usual one", () => {
    const plan = planOf(configWith());
    expect(plan).toMatchObject({ groupSize: 12, rolloutRanks: 2, checkpointReplicas: 1, memoryEvery: 1 });
    expect(plan.settings).toEqual({ lr: 0.1, lrWarmupSteps: 2, lrFinalRatio: 0.5, lrSchedule: "linear" });
  });

  it.each([
    [null, false],
    ["10.0.0.1", false],
    ["10.0.0.0/8", true],
  ])("has rollout replicas serve what they pulled when the data plane's host is %s: %s", (tcpHost, rolloutsServe) => {
    expect(planOf(configWith({ data: { tcpHost } })).rolloutsServe).toBe(rolloutsServe);
  });

  it.each([
    ["devices", { policy: 0, rollout: 0, checkpoint: 0 }, undefined],
    ["devices", { policy: 1, rollout: 2, checkpoint: 0 }, { policy: 1, rollout: 4, checkpoint: 0 }],
    ["processes", { policy: 1, rollout: 1, checkpoint: 1 }, undefined],
    ["processes", { policy: 1, rollout: 2, checkpoint: 1 }, { policy: 1, rollout: 2, checkpoint: 1 }],
  ] as const)("names %s of %o as %o: only where some role has more than it has anyway", (field, value, expected) => {
    expect(planOf(configWith({ [field]: value }))[field]).toEqual(expected);
    expect(planOf(configWith())).not.toHaveProperty(field);
  });

  it.each([
    [undefined, undefined],
    [1, undefined],
    [2, 2],
  ])("asks for checkpoints on %s hosts as %s", (quorum, expected) => {
    const { checkpoint } = configWith();
    expect(planOf(configWith({ checkpoint: { ...checkpoint, quorum } })).checkpointQuorum).toBe(expected);
    expect(planOf(configWith({ checkpoint: { ...checkpoint, shards: quorum } })).checkpointShards).toBe(expected);
    const none = planOf(configWith({ checkpoint: { ...checkpoint, quorum: 1, shards: 1 } }));
    for (const name of ["checkpointQuorum", "checkpointShards"]) expect(none).not.toHaveProperty(name);
  });

  it("has one update a step where the algorithm has no importance ratio, and says whether answers are given", () => {
    const of = (algorithm: string) => planOf(configWith({ training: { algorithm, trainGroups: 0 } }));
    expect([of("rloo"), of("grpo")].map(({ batchBounds }) => batchBounds?.minibatchesMax)).toEqual([1, minibatchesMax]);
    expect([of("sft"), of("grpo")].map(({ isSupervised }) => isSupervised)).toEqual([true, undefined]);
  });
});

it("the failure detector waits longer for who stops nobody, and asks three times", () => {
  expect(detectorTimingOf(configWith())).toMatchObject({
    ...{ intervalMs: 1_000, pauseMs: 3_000, phiMax: 8, missedMax: 5, probes: 3, failuresMax: 3 },
    deadAfterMs: { policy: 10_000, rollout: 15_000, checkpoint: 30_000 },
  });
});
