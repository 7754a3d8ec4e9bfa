export { type ConnectOptions, serverVersionMin } from "./nats/connect.ts";
export { type Credentials, credentialsOfReplica } from "./nats/credentials.ts";
export { type DisconnectNotice, type WatchDisconnectsOptions, watchDisconnects } from "./nats/disconnects.ts";
export { controllerConsumer, type PrepareOptions, prepareJob } from "./nats/prepare-job.ts";
export { connectNats } from "./nats/transport.ts";
export type { ServerCredentials } from "./server/keys.ts";
export { type LocalServer, type LocalServerOptions, startLocalServer } from "./server/local-server.ts";
export { type BrokerRole, barrierAnswers, brokerRoles, type Permissions } from "./server/roles.ts";
export type { ServerExit } from "./server/server-process.ts";
export { type StreamBytes, type StreamName, type StreamRule, streamNames } from "./streams.ts";
export type {
  ConsumeOptions,
  Delivery,
  Journal,
  JournalEntry,
  PublishAck,
  StateStore,
  StreamUsage,
  Subscription,
  TailEntry,
  TailOptions,
  Transport,
  TransportStatus,
} from "./transport.ts";
