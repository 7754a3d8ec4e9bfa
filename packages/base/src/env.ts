/** The ports to the outside that a component is given instead of reaching for globals. */

/** Monotonic time; never wall time. */
export interface Clock {
  /** Milliseconds since an arbitrary origin; never goes back. */
  now(): number;
  /** Calls `run` once after `delayMs` (≥ 0). @returns Cancels it; harmless when called twice or late. */
  after(delayMs: number, run: () => void): () => void;
}

/** Structured log lines: constant message text, values as fields with units in their names. */
export interface Logger {
  trace(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A logger that adds these fields to each line. */
  child(fields: object): Logger;
}

/** A logger that drops everything, for tests and tools. */
export const silentLogger: Logger = {
  trace() {},
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};

/** A counter metric with labels from closed sets. */
export interface Counter {
  add(value: number, labels?: Readonly<Record<string, string>>): void;
}

/** A gauge metric. */
export interface Gauge {
  set(value: number, labels?: Readonly<Record<string, string>>): void;
}

/** A histogram metric. */
export interface Histogram {
  observe(value: number, labels?: Readonly<Record<string, string>>): void;
}

/** What every metric is created with. Names follow `muster_<subsystem>_<noun>_<unit>[_total]`. */
export interface MetricOptions {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly string[];
}

/** The value of a metric for one set of labels. */
export interface Reading {
  readonly value: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Creates metrics; passed in, never global. Asking twice for one name gives the same metric. */
export interface Metrics {
  /** `read`, where given, is asked for all values of the counter whenever the metrics are read; then nothing is added by hand. */
  counter(options: MetricOptions & { readonly read?: () => readonly Reading[] }): Counter;
  /** `read`, where given, is asked for the value of a gauge without labels, or for all its values, whenever the metrics are read. */
  gauge(options: MetricOptions & { readonly read?: () => number | readonly Reading[] }): Gauge;
  histogram(options: MetricOptions & { readonly buckets: readonly number[] }): Histogram;
}

/** Metrics that go nowhere: of a process that nobody asks for them. */
export const noMetrics: Metrics = {
  counter: () => ({ add() {} }),
  gauge: () => ({ set() {} }),
  histogram: () => ({ observe() {} }),
};
