/** What the failure detector waits for, and how long (reliability 4.3). */
import { type JobConfig, type MemberRole, perMemberRole, traitsOf } from "@muster/protocol";

/** Waits and thresholds of the failure detector; every time is multiplied by the local health. */
export interface DetectorTiming {
  /** Time between heartbeats, I. */
  readonly intervalMs: number;
  /** Pause of a healthy member that is no reason to suspect it, P. */
  readonly pauseMs: number;
  /** Suspicion level at which a silent member is suspected. */
  readonly phiMax: number;
  /** Beats missed in a row that make a suspect whatever the level. */
  readonly missedMax: number;
  /** Silence after which a member is out when other evidence agrees, T_d; three times it is enough alone. */
  readonly deadAfterMs: Readonly<Record<MemberRole, number>>;
  readonly probes: number;
  readonly probeTimeoutMs: number;
  /** Bounds of the time without progress in one phase. */
  readonly hungMinMs: number;
  readonly hungMaxMs: number;
  /** Time without progress while an engine loads, builds or compiles. */
  readonly graceMs: number;
  /** Failed health checks of an engine in a row after which its replica is out. */
  readonly failuresMax: number;
}

/** Multiples of `timing.dead_after`: rollouts and checkpoint actors stop nobody by their silence, so they get longer than policy replicas. */
export const detectionPatience = perMemberRole((role) => traitsOf(role).patience);

/** Takes the waits of the detector out of a job configuration. Pure. */
export function detectorTimingOf({ timing, health }: Pick<JobConfig, "timing" | "health">): DetectorTiming {
  return {
    intervalMs: timing.heartbeatIntervalMs,
    pauseMs: timing.suspectAfterMs,
    phiMax: health.phi,
    missedMax: health.missedBeats,
    deadAfterMs: perMemberRole((role) => timing.deadAfterMs * detectionPatience[role]),
    probes: 3,
    probeTimeoutMs: health.probeTimeoutMs,
    hungMinMs: health.hungMinMs,
    hungMaxMs: health.hungMaxMs,
    graceMs: health.graceMs,
    failuresMax: health.failureThreshold,
  };
}
