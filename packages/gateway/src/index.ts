/** HTTP doors of Muster: the checkpoint service's coordinator, and clients for it. */
export { type Gateway, type GatewayOptions, startGateway } from "./gateway.ts";
export { type Grant, grantsOf } from "./http/guard.ts";
export { openApiOf } from "./http/openapi.ts";
export type { Scope } from "./http/routes.ts";
export {
  type AllMetrics,
  Counter,
  Gauge,
  Histogram,
  type HistogramStats,
  latencyBuckets,
  MetricsCollector,
  type Operation,
  operations,
} from "./metrics/collector.ts";
export { rulesDefault, type TopologyRules } from "./topology/state.ts";
