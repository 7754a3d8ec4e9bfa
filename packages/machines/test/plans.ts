/** Small plans: a whole job in a few virtual seconds. */
import type { ControllerPlan } from "@muster/machines";

/** Six steps of 24 groups in sync mode. */
export const plan: ControllerPlan = {
  seed: 7,
  steps: 6,
  stalenessMax: 0,
  initReplicas: { policy: 2, rollout: 2 },
  checkpointReplicas: 1,
  weights: { kind: "seed", seed: 7 },
  groupsPerStep: 24,
  groupSize: 4,
  evalEverySteps: 3,
  evalPrompts: 100,
  checkpointEverySteps: 2,
  timing: {
    gatherMs: 60_000,
    commandMs: 1_000,
    leaseMs: 5_000,
    stepMs: 4_000,
    meshMs: 2_000,
    pullMs: 2_000,
    checkpointMs: 5_000,
    drainMs: 8_000,
  },
  limits: { groupAttemptsMax: 1_000, stepAttemptsMax: 5, leaseGroupsMax: 8, leasesPerRollout: 2, chunkGroups: 4 },
};
