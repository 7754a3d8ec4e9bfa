/** What the failure detector says of itself to an operator (reliability 4.4). */
import type { Metrics } from "@muster/base";
import { evidenceKinds } from "@muster/protocol";

/** Meters of the watch over the members. */
export interface WatchMeters {
  readonly phi: { set(value: number): void };
  readonly loopLagMs: { set(value: number): void };
  readonly localHealth: { set(value: number): void };
  readonly isViewSuspect: { set(value: number): void };
  suspected(kind: string): void;
  hung(): void;
  evicted(reason: string): void;
  evictedFalsely(): void;
}

/** Makes the meters. Labels are kinds of evidence, never members: there may be thousands. */
export function watchMetersOn(metrics: Metrics): WatchMeters {
  const phi = metrics.gauge({ name: "muster_detector_phi", help: "Highest level of suspicion of any member." });
  const loopLagMs = metrics.gauge({
    name: "muster_detector_loop_lag_ms",
    help: "Longest time that the main loop of any member has stood still.",
  });
  const localHealth = metrics.gauge({
    name: "muster_detector_local_health",
    help: "How ill the watcher itself is, 0 to 7; every wait is multiplied by one more.",
  });
  const isViewSuspect = metrics.gauge({
    name: "muster_detector_view_suspect",
    help: "1 while no member is evicted because the view is or was bad.",
  });
  const suspects = metrics.counter({
    name: "muster_detector_suspect_total",
    help: "Suspicions by kind of evidence.",
    labels: ["kind"],
  });
  const hangs = metrics.counter({ name: "muster_detector_hung_total", help: "Members found hanging." });
  const evictions = metrics.counter({
    name: "muster_detector_evict_total",
    help: "Members evicted by a verdict, by kind of evidence.",
    labels: ["reason"],
  });
  const falseEvictions = metrics.counter({
    name: "muster_detector_evict_false_total",
    help: "Incarnations that were evicted and sent a heartbeat again within ten minutes, including those that had been paused or cut off.",
  });
  const kindOf = (kind: string): string => ((evidenceKinds as readonly string[]).includes(kind) ? kind : "silence");
  return {
    phi,
    loopLagMs,
    localHealth,
    isViewSuspect,
    suspected: (kind) => suspects.add(1, { kind: kindOf(kind) }),
    hung: () => hangs.add(1),
    evicted: (reason) => evictions.add(1, { reason: kindOf(reason) }),
    evictedFalsely: () => falseEvictions.add(1),
  };
}
