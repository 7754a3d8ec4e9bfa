import { defineErrors } from "@muster/base";

/** Errors of the simulator's models and of its command. */
export const errors = defineErrors("MUSTER_ERR", {
  SimInjected: { message: "injected at {point}", retryable: true },
  SimPullFailed: { message: "version {version} could not be pulled from {holders} holders: {reason}" },
  SimRankLost: { message: "rank {rank} of the trainer is gone" },
  SimRankRestore: { message: "each rank of a trainer restores its own shard" },
  SimMeshLost: { message: "epoch {epoch}: ranks {ranks} did not arrive or were lost: {reason}" },
  SimScenarioInvalid: { message: "this is no scenario of the simulator: {reason}" },
  SimWorker: { message: "a worker of the simulator failed: {reason}" },
  SimViolation: { message: "invariant {invariant}: {detail}" },
  ChaosRun: { message: "chaos: {what} did not come: {reason}; the last lines of the run: {lines}" },
});
