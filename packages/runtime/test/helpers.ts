/** What several tests of this package need. */

import type { Logger, Metrics } from "@muster/base";
import { createEnveloper, type Identity } from "@muster/protocol";

/** One log line as a test sees it. */
export interface Line {
  readonly level: string;
  readonly fields: object;
  readonly message: string;
}

/** A logger that keeps its lines. */
export function recordingLogger(): { readonly logger: Logger; readonly lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, fields, message });
  const logger: Logger = {
    trace: at("trace"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: () => logger,
  };
  return { logger, lines };
}

/** Metrics that add up: `total("name", {label: "value"})`. */
export function countingMetrics(): {
  readonly metrics: Metrics;
  readonly total: (name: string, labels?: Readonly<Record<string, string>>) => number;
} {
  const totals = new Map<string, number>();
  const keyOf = (name: string, labels: object = {}): string => name + JSON.stringify(labels);
  const metrics: Metrics = {
    counter: ({ name }) => ({
      add: (value, labels) => void totals.set(keyOf(name, labels), (totals.get(keyOf(name, labels)) ?? 0) + value),
    }),
    gauge: ({ name }) => ({ set: (value, labels) => void totals.set(keyOf(name, labels), value) }),
    histogram: ({ name }) => ({
      observe: (_, labels) => void totals.set(keyOf(name, labels), (totals.get(keyOf(name, labels)) ?? 0) + 1),
    }),
  };
  return { metrics, total: (name, labels) => totals.get(keyOf(name, labels)) ?? 0 };
}

/** Lets every callback that is due run, `times` turns of the event loop. */
export async function turns(times = 1): Promise<void> {
  for (let i = 0; i < times; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Messages of one sender; a new incarnation each call unless given. */
export function speaker(identity: Partial<Identity> = {}) {
  return createEnveloper({
    job: "dates",
    id: "rollout-0",
    role: "rollout",
    incarnation: "a1",
    wallMs: () => 0,
    ...identity,
  });
}
