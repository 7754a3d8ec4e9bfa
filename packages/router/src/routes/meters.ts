/** What the router counts. Labels are of closed sets; workers are as many as the pool takes. */
import type { Metrics } from "@muster/base";
import type { Pool, Ticket } from "../core/pool.ts";
import type { FailureKind } from "../core/retry.ts";
import { workerStates } from "../core/worker.ts";

/** The router's metrics. */
export interface Meters {
  request(route: string, status: number, durationMs: number): void;
  firstToken(route: string, ms: number): void;
  failure(kind: FailureKind): void;
  retry(kind: "retry" | "continue"): void;
  sticky(how: Ticket["sticky"]): void;
  check(ok: boolean): void;
  refused(code: string): void;
}

const secondsBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** Registers the metrics. */
export function openMeters(metrics: Metrics, pool: Pool, waiting: () => number): Meters {
  const counter = (name: string, help: string, labels: readonly string[]) =>
    metrics.counter({ name: `muster_router_${name}`, help, labels });
  const requests = counter("requests_total", "Answers, by route and status", ["route", "status"]);
  const failures = counter("errors_total", "Attempts that failed, by kind", ["kind"]);
  const retries = counter("retries_total", "Attempts after a failed one: from the start, or going on", ["kind"]);
  const stickies = counter("sticky_total", "Requests with a routing key: hit, new or moved", ["result"]);
  const checks = counter("health_checks_total", "Checks of workers, by outcome", ["outcome"]);
  const refusals = counter("refused_total", "Requests that the router answered by itself, by code", ["code"]);
  const duration = metrics.histogram({
    ...{ name: "muster_router_request_duration_seconds", labels: ["route"], buckets: secondsBuckets },
    help: "From the request to the end of its answer",
  });
  const ttft = metrics.histogram({
    ...{ name: "muster_router_ttft_seconds", labels: ["route"], buckets: secondsBuckets },
    help: "From the request to the first event of its answer; to the whole answer when it is no stream",
  });
  openGauges(metrics, pool, waiting);
  return {
    request(route, status, durationMs) {
      requests.add(1, { route, status: `${status}` });
      duration.observe(durationMs / 1000, { route });
    },
    firstToken: (route, ms) => ttft.observe(ms / 1000, { route }),
    failure: (kind) => failures.add(1, { kind }),
    retry: (kind) => retries.add(1, { kind }),
    sticky: (result) => (result === "none" ? undefined : stickies.add(1, { result })),
    check: (ok) => checks.add(1, { outcome: ok ? "ok" : "failed" }),
    refused: (code) => refusals.add(1, { code }),
  };
}

function openGauges(metrics: Metrics, pool: Pool, waiting: () => number): void {
  metrics.gauge({
    ...{ name: "muster_router_worker_active", labels: ["worker"] },
    help: "Requests at a worker",
    read: () => pool.workers().map(({ url, active }) => ({ value: active, labels: { worker: url } })),
  });
  metrics.gauge({
    ...{ name: "muster_router_worker_state", labels: ["worker", "state"] },
    help: "1 for the state that a worker is in",
    read: () =>
      pool.workers().flatMap((worker) =>
        workerStates.map((state) => ({
          value: worker.state === state ? 1 : 0,
          labels: { worker: worker.url, state },
        })),
      ),
  });
  metrics.gauge({
    name: "muster_router_quarantined_workers",
    help: "Workers in quarantine",
    read: () => pool.workers().filter(({ state }) => state === "quarantined").length,
  });
  metrics.gauge({ name: "muster_router_waiting_requests", help: "Requests that wait for a worker", read: waiting });
  metrics.gauge({ name: "muster_router_sticky_keys", help: "Routing keys with a worker", read: () => pool.stickyKeys });
  metrics.gauge({
    name: "muster_router_newest_weight_version",
    help: "Newest numbered weight version that a worker said",
    read: () => (pool.newest === null ? [] : [{ value: pool.newest }]),
  });
}
