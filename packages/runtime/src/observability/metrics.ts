/** The process's metrics: prom-client behind the Metrics interface, in a registry of its own. */
import type { MetricOptions, Metrics, Reading } from "@muster/base";
import { Counter, collectDefaultMetrics, Gauge, Histogram, type Metric, Registry } from "prom-client";
import { errors } from "../errors.ts";

/** Metrics that can be read. */
export interface MetricsRegistry extends Metrics {
  /** The registry in the Prometheus text format. */
  render(): Promise<string>;
  /** MIME type of {@link MetricsRegistry.render}. */
  readonly contentType: string;
}

/** Gives a gauge these values and no others. */
function setAll(gauge: Gauge<string>, values: readonly Reading[], hasLabels: boolean): void {
  gauge.reset();
  // After a reset a gauge without labels stands at 0, which nobody has read.
  if (!hasLabels) gauge.remove();
  for (const { value, labels = {} } of values) gauge.set(labels, value);
}

/**
 * Creates an empty registry.
 *
 * @param options - `process`: also CPU, memory, file descriptors, event-loop lag and garbage collection of this process.
 * @returns Metrics that throw MUSTER_ERR_METRIC_KIND when one name is asked for as two kinds.
 */
export function createMetrics(options: { readonly process?: boolean } = {}): MetricsRegistry {
  const registry = new Registry();
  if (options.process) collectDefaultMetrics({ register: registry });

  /** The metric of this name, made at first asking. */
  const once = <M extends Metric>(kind: abstract new (...args: never[]) => M, name: string, make: () => M): M => {
    const found = registry.getSingleMetric(name);
    if (found === undefined) return make();
    if (found instanceof kind) return found;
    throw errors.MetricKind({ name, found: found.constructor.name, wanted: kind.name });
  };
  const configOf = ({ name, help, labels = [] }: MetricOptions) => ({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
  });

  return {
    counter(metric) {
      const { read } = metric;
      const make = (): Counter<string> =>
        new Counter({
          ...configOf(metric),
          ...(read && {
            collect() {
              this.reset();
              for (const { value, labels = {} } of read()) this.inc(labels, value);
            },
          }),
        });
      const counter = once(Counter<string>, metric.name, make);
      return { add: (value, labels = {}) => counter.inc(labels, value) };
    },
    gauge(metric) {
      const { read } = metric;
      const make = (): Gauge<string> =>
        new Gauge({
          ...configOf(metric),
          ...(read && {
            collect() {
              const values = read();
              if (typeof values === "number") this.set(values);
              else setAll(this, values, (metric.labels ?? []).length > 0);
            },
          }),
        });
      const gauge = once(Gauge<string>, metric.name, make);
      return { set: (value, labels = {}) => gauge.set(labels, value) };
    },
    histogram(metric) {
      const make = () => new Histogram({ ...configOf(metric), buckets: [...metric.buckets] });
      const histogram = once(Histogram<string>, metric.name, make);
      return { observe: (value, labels = {}) => histogram.observe(labels, value) };
    },
    render: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
