export { systemClock } from "./clock.ts";
export { makeFolderSync, makeOwnFolderSync } from "./folders.ts";
export { type Heartbeat, type HeartbeatOptions, startHeartbeat } from "./heartbeat/heartbeat.ts";
export type { HeartbeatConnection } from "./heartbeat/job.ts";
export { createActorHost } from "./host/actor-host.ts";
export type { Lane } from "./host/mailbox.ts";
export type { PendingTimer } from "./host/timers.ts";
export type {
  ActorHost,
  ActorHostOptions,
  EffectHandler,
  EffectHandlers,
  HostEnd,
  HostTools,
  Patience,
  PersistBatch,
  Typed,
} from "./host/types.ts";
export { type ExitCode, exitCodes } from "./lifecycle/exit-codes.ts";
export { installLifecycle, type LifecycleOptions, type ProcessPort, type StopReason } from "./lifecycle/lifecycle.ts";
export { runtimeMetrics } from "./metrics.ts";
export { ErrorFiles } from "./observability/error-files.ts";
export { lastWordsOf, sayLastWords } from "./observability/last-words.ts";
export {
  createLogger,
  type LogDestination,
  type LoggerOptions,
  type LogLevel,
  logLevels,
} from "./observability/logger.ts";
export { openTestHosts, type TestHost, type TestHosts, type TestHostsOptions } from "./test-hosts.ts";
export { createIngress, type Ingress, type IngressOptions, type Refusal } from "./wire/ingress.ts";
export { createOutbox, type Outbox, type OutboxItem, type OutboxOptions } from "./wire/outbox.ts";
