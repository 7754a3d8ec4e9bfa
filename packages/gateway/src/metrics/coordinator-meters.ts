/** What the coordinator counts about itself, besides the metrics of the document. */
import type { Coordinator } from "../coordinator.ts";
import { aliveOf, allNodes } from "../topology/state.ts";
import { Histogram, latencyBuckets } from "./collector.ts";

/** Meters of one coordinator. */
export class CoordinatorMeters {
  readonly #coordinator: Coordinator;
  readonly #answers = new Map<string, number>();
  readonly #latency = new Histogram();

  constructor(coordinator: Coordinator) {
    this.#coordinator = coordinator;
  }

  /** Counts an answer. `route` and `status` come from closed sets. */
  answered(route: string, status: number, seconds: number): void {
    const labels = `route="${route}",status="${status}"`;
    this.#answers.set(labels, (this.#answers.get(labels) ?? 0) + 1);
    this.#latency.observe(seconds);
  }

  /** Everything in the text format of Prometheus. */
  exportPrometheus(): string {
    const state = this.#coordinator.peek();
    const roles = [...state.roles.keys()].map(
      (role) => `dcs_coordinator_nodes{role="${role}"} ${aliveOf(state, role).length}`,
    );
    const { buckets, sum, count } = this.#latency.getStats();
    const dead = allNodes(state).filter(({ isAlive }) => !isAlive).length;
    return `${[
      "# TYPE dcs_coordinator_requests_total counter",
      ...[...this.#answers].map(([labels, value]) => `dcs_coordinator_requests_total{${labels}} ${value}`),
      "# TYPE dcs_coordinator_request_seconds histogram",
      ...[...latencyBuckets.map(String), "+Inf"].map(
        (le) => `dcs_coordinator_request_seconds_bucket{le="${le}"} ${buckets[le] ?? 0}`,
      ),
      `dcs_coordinator_request_seconds_sum ${sum}`,
      `dcs_coordinator_request_seconds_count ${count}`,
      "# TYPE dcs_coordinator_nodes gauge",
      ...roles,
      "# TYPE dcs_coordinator_dead_nodes gauge",
      `dcs_coordinator_dead_nodes ${dead}`,
      "# TYPE dcs_coordinator_membership_epoch gauge",
      `dcs_coordinator_membership_epoch ${state.epoch}`,
      "# TYPE dcs_coordinator_waiting_calls gauge",
      `dcs_coordinator_waiting_calls ${this.#coordinator.waiting}`,
    ].join("\n")}\n`;
  }
}
