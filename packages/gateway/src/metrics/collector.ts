/** The metrics of the checkpoint service, by the names, labels, units and buckets of its document. */

/** Upper bounds of latency buckets, in seconds. */
export const latencyBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** Kinds of operations that are timed. */
export const operations = ["save", "load", "send", "recv"] as const;

/** One kind of operation. */
export type Operation = (typeof operations)[number];

/** What a histogram has seen. `buckets` are cumulative, by upper bound. */
export interface HistogramStats {
  readonly count: number;
  readonly sum: number;
  /** 0 when nothing was seen. */
  readonly avg: number;
  readonly buckets: Readonly<Record<string, number>>;
}

/** A distribution of latencies. */
export class Histogram {
  readonly #bounds: readonly number[];
  readonly #counts: number[];
  #count = 0;
  #sum = 0;

  /** @param bounds - Upper bounds in seconds, rising. */
  constructor(bounds: readonly number[] = latencyBuckets) {
    this.#bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  /** Records a sample, in seconds. */
  observe(value: number): void {
    this.#count++;
    this.#sum += value;
    this.#bounds.forEach((bound, i) => {
      if (value <= bound) this.#counts[i] = (this.#counts[i] ?? 0) + 1;
    });
  }

  /** Everything seen so far. */
  getStats(): HistogramStats {
    const finite = this.#bounds.map((bound, i) => [String(bound), this.#counts[i] ?? 0] as const);
    return {
      count: this.#count,
      sum: this.#sum,
      avg: this.#count === 0 ? 0 : this.#sum / this.#count,
      buckets: Object.fromEntries([...finite, ["+Inf", this.#count]]),
    };
  }
}

/** A number that only rises. */
export class Counter {
  #value = 0;

  /** @throws RangeError for less than zero. */
  inc(value = 1): void {
    if (!(value >= 0)) throw new RangeError(`a counter rises by 0 or more, not by ${value}`);
    this.#value += value;
  }

  get value(): number {
    return this.#value;
  }
}

/** A number that rises and falls. */
export class Gauge {
  #value = 0;

  set(value: number): void {
    this.#value = value;
  }

  inc(value = 1): void {
    this.#value += value;
  }

  dec(value = 1): void {
    this.#value -= value;
  }

  get value(): number {
    return this.#value;
  }
}

/** All metrics as plain values. */
export interface AllMetrics {
  readonly uptime_seconds: number;
  readonly latency: Readonly<Record<Operation, HistogramStats>>;
  readonly counters: Readonly<Record<string, number>>;
  readonly errors: Readonly<Record<string, number>>;
  readonly gauges: Readonly<Record<string, number>>;
}

const bytesOf = { save: "bytes_saved", load: "bytes_loaded", send: "bytes_sent", recv: "bytes_received" } as const;
const gaugeNames = ["memory_buffer_usage_bytes", "active_connections", "pending_operations"] as const;
/** Error types told apart; further ones are counted as `other`. */
const errorTypesMax = 64;

/** The metrics of one process. */
export class MetricsCollector {
  readonly memoryBufferUsageBytes = new Gauge();
  readonly activeConnections = new Gauge();
  readonly pendingOperations = new Gauge();
  readonly #latency = perOperation(() => new Histogram());
  readonly #bytes = perOperation(() => new Counter());
  readonly #operations = perOperation(() => new Counter());
  readonly #errors = new Map<string, Counter>();
  readonly #nowMs: () => number;
  readonly #startedMs: number;

  /** @param nowMs - Monotonic time; default that of the process. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
    this.#startedMs = nowMs();
  }

  /** Counts an operation with its bytes and its duration in seconds. */
  record(operation: Operation, bytes: number, durationSeconds: number): void {
    this.#latency[operation].observe(durationSeconds);
    this.#bytes[operation].inc(bytes);
    this.#operations[operation].inc();
  }

  recordSave = (bytes: number, durationSeconds: number): void => this.record("save", bytes, durationSeconds);
  recordLoad = (bytes: number, durationSeconds: number): void => this.record("load", bytes, durationSeconds);
  recordSend = (bytes: number, durationSeconds: number): void => this.record("send", bytes, durationSeconds);
  recordRecv = (bytes: number, durationSeconds: number): void => this.record("recv", bytes, durationSeconds);

  /** Counts an error by its type, which should come from a closed set. */
  recordError(type: string): void {
    const name = this.#errors.has(type) || this.#errors.size < errorTypesMax ? type : "other";
    const counter = this.#errors.get(name) ?? new Counter();
    this.#errors.set(name, counter);
    counter.inc();
  }

  /** Everything as plain values. */
  getAll(): AllMetrics {
    const errors = Object.fromEntries([...this.#errors].map(([type, { value }]) => [type, value]));
    const counts = operations.flatMap((each) => [
      [bytesOf[each], this.#bytes[each].value],
      [`${each}_operations`, this.#operations[each].value],
    ]);
    return {
      uptime_seconds: (this.#nowMs() - this.#startedMs) / 1_000,
      latency: perOperation((each) => this.#latency[each].getStats()),
      counters: { ...Object.fromEntries(counts), errors: Object.values(errors).reduce((sum, n) => sum + n, 0) },
      errors,
      gauges: {
        memory_buffer_usage_bytes: this.memoryBufferUsageBytes.value,
        active_connections: this.activeConnections.value,
        pending_operations: this.pendingOperations.value,
      },
    };
  }

  /** Everything in the text format of Prometheus. */
  exportPrometheus(): string {
    const { latency, counters, errors, gauges, uptime_seconds } = this.getAll();
    const lines = operations.flatMap((each) => histogramLines(`dcs_${each}_latency_seconds`, latency[each]));
    for (const each of operations) {
      lines.push(...single("counter", `dcs_${bytesOf[each]}_total`, counters[bytesOf[each]] ?? 0));
      lines.push(...single("counter", `dcs_${each}_operations_total`, counters[`${each}_operations`] ?? 0));
    }
    lines.push("# TYPE dcs_errors_total counter");
    for (const [type, value] of Object.entries(errors))
      lines.push(`dcs_errors_total{type="${escaped(type)}"} ${value}`);
    if (Object.keys(errors).length === 0) lines.push("dcs_errors_total 0");
    for (const name of gaugeNames) lines.push(...single("gauge", `dcs_${name}`, gauges[name] ?? 0));
    lines.push(...single("gauge", "dcs_uptime_seconds", uptime_seconds));
    return `${lines.join("\n")}\n`;
  }
}

function histogramLines(name: string, { buckets, sum, count }: HistogramStats): string[] {
  const rows = [...latencyBuckets.map(String), "+Inf"].map((le) => `${name}_bucket{le="${le}"} ${buckets[le] ?? 0}`);
  return [`# TYPE ${name} histogram`, ...rows, `${name}_sum ${sum}`, `${name}_count ${count}`];
}

function single(type: "counter" | "gauge", name: string, value: number): readonly string[] {
  return [`# TYPE ${name} ${type}`, `${name} ${value}`];
}

function perOperation<T>(make: (operation: Operation) => T): Record<Operation, T> {
  return { save: make("save"), load: make("load"), send: make("send"), recv: make("recv") };
}

const escaped = (text: string): string => text.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n");
