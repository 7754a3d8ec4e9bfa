/** Small plans: a whole job in a few virtual seconds. */
import type { ControllerPlan } from "@muster/machines/controller";
import type { FailurePolicy } from "@muster/protocol";

/** Nothing is ever given up, and there is no ceiling: what a test is about goes on top. */
const patient: FailurePolicy = {
  failFast: false,
  cordonOnSigns: true,
  abortShareMax: 1,
  abortWindow: 1_024,
  sameErrorMax: 0,
  atCeiling: "abort",
  transport: { action: "isolate", attempts: 1, backoffMs: 0 },
  timeout: { action: "isolate", attempts: 1, backoffMs: 0 },
  engineCrash: { action: "quarantine", attempts: 1_000, backoffMs: 0 },
  oom: { action: "quarantine", attempts: 1_000, backoffMs: 0 },
  userError: { action: "isolate", attempts: 1, backoffMs: 0 },
  nonFinite: { action: "quarantine", attempts: 3, backoffMs: 0 },
  checkpointIo: { action: "retry", attempts: 1, backoffMs: 200 },
};

/** Six steps of 24 groups in sync mode. */
export const plan: ControllerPlan = {
  seed: 7,
  steps: 6,
  stalenessMax: 0,
  initReplicas: { policy: 2, rollout: 2 },
  rolloutsServe: false,
  rolloutRanks: 1,
  checkpointReplicas: 1,
  replicas: { policy: 2, rollout: 2, checkpoint: 1 },
  minReplicas: { policy: 1, rollout: 1 },
  microShards: 8,
  weights: { kind: "seed", seed: 7 },
  groupsPerStep: 24,
  groupSize: 4,
  evalEverySteps: 3,
  evalPrompts: 100,
  checkpointEverySteps: 2,
  checkpointKeep: 2,
  memoryEvery: 0,
  timing: {
    gatherMs: 60_000,
    commandMs: 1_000,
    leaseMs: 5_000,
    stepMs: 4_000,
    meshMs: 2_000,
    pullMs: 2_000,
    checkpointMs: 5_000,
    drainMs: 8_000,
    joinMs: 0,
    deadAfterMs: 3_000,
  },
  health: { readmitAfterMs: 50, progressMs: 120_000 },
  failure: patient,
  limits: { stepAttemptsMax: 5, leaseGroupsMax: 8, leasesPerRollout: 2, chunkGroups: 4 },
};
