/** HTTP endpoints of Muster: the checkpoint service's coordinator, and clients for it. */
export { CommHandle, type RecvRequest, type SendRequest, type TcpBackend } from "./client/backend.ts";
export {
  type CheckpointClientOptions,
  CheckpointEngineClient,
  createClient,
  type UpdateGroups,
  type UpdateResult,
  type Weights,
} from "./client/checkpoint-client.ts";
export type { Manifest } from "./client/manifest.ts";
export type { Package } from "./client/package-server.ts";
export { type FusedBuffer, type Tensor, type TensorDict, TensorFusion, type TensorRow } from "./client/tensors.ts";
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
