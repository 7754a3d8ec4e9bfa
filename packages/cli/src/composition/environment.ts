/** The real environment of an actor: clocks, broker, heartbeats, logs and metrics of this process. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Environment } from "@muster/actors";
import { type Logger, type Metrics, mixSeed, randomOf } from "@muster/base";
import { startHeartbeat, systemClock } from "@muster/runtime";
import { connectNats, watchDisconnects } from "@muster/transport";
import { credentialsOf, type JobConnection } from "./connection.ts";
import { plainTextWarning } from "./plain-text.ts";

const connectTimeoutMs = 30_000;

/** Makes the environment of one actor. */
export function createEnvironment(options: {
  readonly connection: JobConnection;
  /** Node that started this process. */
  readonly node?: string | undefined;
  /** Life of the replica of several processes that this process speaks for. */
  readonly life?: number | undefined;
  readonly logger: Logger;
  readonly metrics: Metrics;
}): Environment {
  const { connection, logger, metrics } = options;
  const nameOf = (identity: { role: string; id: string; incarnation: string }): string =>
    `${identity.role}.${identity.id}.${identity.incarnation}`;
  const warning = plainTextWarning(connection.url);
  if (warning !== null) logger.warn({}, warning);
  return {
    host: hostname(),
    pid: process.pid,
    node: options.node ?? null,
    ...(options.life === undefined ? {} : { life: options.life }),
    clock: systemClock(),
    wallMs: Date.now,
    random: randomOf(mixSeed(process.pid, Date.now())),
    logger,
    metrics,
    newIncarnation: () => `i${Date.now().toString(36)}${randomBytes(4).toString("hex")}`,
    connect: (identity) =>
      connectNats({
        url: connection.url,
        job: connection.job,
        credentials: credentialsOf(connection, identity.role),
        name: nameOf(identity),
        logger,
        connectTimeoutMs,
      }),
    ...(connection.credentials.system
      ? {
          watchDisconnects: (handle) =>
            watchDisconnects({
              url: connection.url,
              credentials: credentialsOf(connection, "system"),
              logger,
              connectTimeoutMs,
              users: connection.credentials,
              handle,
            }),
        }
      : {}),
    startBeats: (identity, phases, intervalMs) =>
      startHeartbeat({
        connection: {
          url: connection.url,
          credentials: credentialsOf(connection, identity.role),
          name: `${nameOf(identity)}.hb`,
        },
        identity,
        intervalMs,
        phases,
        logger,
      }),
  };
}
