/** The incidents of a job, from the facts that its controllers say: for the status and the metrics (semantics 6.15). */
import type { Metrics } from "@muster/base";
import { applyFact, emptyIncidentLog, ettrOf, type Incident, type IncidentLog } from "@muster/machines";
import type { AnnounceEffect } from "@muster/machines/controller";
import type { JobStatus } from "@muster/protocol";
import { factOf } from "./open-ends.ts";

/** Follows what a controller says. */
export interface IncidentWatch {
  /** `atMs` is wall time. */
  said(fact: Pick<AnnounceEffect, "kind" | "body">, atMs: number): void;
  summary(): JobStatus["incidents"];
}

const secondsBuckets = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 60];

/** Goes on from what earlier terms left; counters and histograms count the facts of this process. */
export function watchIncidents(metrics: Metrics, earlier: IncidentLog = emptyIncidentLog): IncidentWatch {
  const labels = ["kind"];
  const recover = metrics.histogram({
    name: "muster_incident_recover_seconds",
    help: "Time from the first evidence of an incident until the job had recovered.",
    labels,
    buckets: secondsBuckets,
  });
  const detect = metrics.histogram({
    name: "muster_incident_detect_seconds",
    help: "Silence until an incident was noticed; 0 where its evidence needed none.",
    labels,
    buckets: secondsBuckets,
  });
  const total = metrics.counter({ name: "muster_incidents_total", help: "Incidents by kind.", labels });
  const wasted = metrics.counter({ name: "muster_tokens_wasted_total", help: "Tokens that were made for nothing." });
  const ettr = metrics.gauge({
    name: "muster_ettr_ratio",
    help: "Share of the time since the job's first commit that was productive, over all terms.",
  });
  const known = new WeakSet<Incident>(earlier.incidents);
  let log = earlier;
  ettr.set(ettrOf(log) ?? 1);
  return {
    said({ kind, body }, atMs) {
      const before = log;
      log = applyFact(log, factOf({ kind, body }, atMs));
      if (log === before) return;
      for (const [name, count] of Object.entries(log.counts)) {
        const more = count - (before.counts[name] ?? 0);
        // A silence that ends in death was counted as a silence; a counter does not go back.
        if (more > 0) total.add(more, { kind: name });
      }
      wasted.add(log.tokensWasted - before.tokensWasted);
      if (kind === "step.committed") ettr.set(ettrOf(log) ?? 1);
      if (log.incidents !== before.incidents) for (const incident of log.incidents) observe(incident);
    },
    summary: () => ({
      counts: log.counts,
      open: log.incidents.filter(({ recoveredAtMs }) => recoveredAtMs === null).length,
      tokensWasted: log.tokensWasted,
      ettr: ettrOf(log),
    }),
  };

  function observe(incident: Incident): void {
    if (incident.recoveredAtMs === null || known.has(incident)) return;
    known.add(incident);
    detect.observe(incident.silentMs / 1000, { kind: incident.kind });
    recover.observe((incident.recoveredAtMs - incident.detectedAtMs) / 1000, { kind: incident.kind });
  }
}
