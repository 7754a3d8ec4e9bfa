/** The metrics of a process that serves them. */
export { createMetrics, type MetricsRegistry } from "./metrics.ts";
export { type MetricsServer, type MetricsServerOptions, startMetricsServer } from "./metrics-server.ts";
