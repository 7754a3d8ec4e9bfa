/** Opens connections with the settings that were found to survive cuts, freezes and restarts of the server. */
import { type Logger, messageOf, silentLogger } from "@muster/base";
import { jwtAuthenticator, type NatsConnection } from "@nats-io/nats-core";
import type { NodeConnectionOptions } from "@nats-io/transport-node";
import { errors } from "../errors.ts";
import { headersBytesMax, messageBytesMax } from "../streams.ts";
import { type Credentials, credentialsOfReplica, inboxPrefixOf } from "./credentials.ts";
import { connectNode } from "./dial.ts";
import { Link } from "./link.ts";
import { isAuthFailure } from "./translate.ts";

/** How to reach the broker of a job. */
export interface ConnectOptions {
  /** `nats://host:port` or `tls://host:port`; several servers of one cluster separated by commas. */
  readonly url: string;
  readonly job: string;
  readonly credentials: Credentials;
  /** `<role>.<id>.<incarnation>`: the name by which the broker announces our end. The role is that of the credentials. */
  readonly name: string;
  readonly logger?: Logger;
  /** How long to go on trying at first. After that, reconnects go on for ever. */
  readonly connectTimeoutMs: number;
}

/** The oldest nats-server that keeps every promise this package relies on. */
export const serverVersionMin = "2.11.0";

const retryMs = 250;
const dialTimeoutMs = 2_000;

/** Opens a link. @throws MUSTER_ERR_BROKER_UNREACHABLE, MUSTER_ERR_BROKER_AUTH, MUSTER_ERR_BROKER_TOO_OLD */
export async function openLink(options: Omit<ConnectOptions, "job">): Promise<Link> {
  const [role = "", id = ""] = options.name.split(".");
  const { replica, seed } = ownCredentials(options, id);
  const authenticator = jwtAuthenticator(replica.token, new TextEncoder().encode(seed));
  const connection = await dialUntil(options, { authenticator, inboxPrefix: inboxPrefixOf(role, id) });
  const version = connection.info?.version ?? "unknown";
  if (!isRecent(version)) {
    await connection.close();
    throw errors.BrokerTooOld({ url: options.url, version, minimum: serverVersionMin });
  }
  return Link.of([role, id], connection, options.logger ?? silentLogger);
}

/** Makes sure that the largest message has room, with its headers. @throws MUSTER_ERR_BROKER_PAYLOAD */
export async function checkPayload(link: Link, url: string): Promise<void> {
  const wanted = messageBytesMax + headersBytesMax;
  const found = link.connection.info?.max_payload ?? 0;
  if (found >= wanted) return;
  await link.close();
  throw errors.BrokerPayload({ url, found, wanted });
}

/** Credentials for one id: those of a role make them. @throws MUSTER_ERR_BROKER_AUTH, MUSTER_ERR_CREDENTIALS_OTHER */
function ownCredentials({ url, credentials }: Omit<ConnectOptions, "job">, id: string): ReplicaCredentials {
  const { user } = credentials;
  let own: Credentials;
  try {
    own = credentialsOfReplica(credentials, id);
  } catch (error) {
    throw errors.BrokerAuth({ url, user }, error);
  }
  const { replica } = own;
  if (replica?.id !== id) throw errors.CredentialsOther({ user, id, owner: replica?.id ?? "nobody" });
  return { ...own, replica };
}

type ReplicaCredentials = Credentials & Required<Pick<Credentials, "replica">>;

/** By what the broker knows the client. */
type Proof = Pick<NodeConnectionOptions, "authenticator" | "inboxPrefix">;

async function dialUntil(options: Omit<ConnectOptions, "job">, proof: Proof): Promise<NatsConnection> {
  const { url, credentials, connectTimeoutMs } = options;
  const deadline = performance.now() + connectTimeoutMs;
  for (;;) {
    try {
      return await dial(options, proof, Math.min(dialTimeoutMs, Math.max(1, deadline - performance.now())));
    } catch (error) {
      if (isAuthFailure(error)) throw errors.BrokerAuth({ url, user: credentials.user }, error);
      if (performance.now() + retryMs >= deadline) {
        throw errors.BrokerUnreachable({ url, timeoutMs: connectTimeoutMs, reason: messageOf(error) }, error);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

function dial(options: Omit<ConnectOptions, "job">, proof: Proof, timeoutMs: number): Promise<NatsConnection> {
  return connectNode({
    servers: options.url.split(","),
    name: options.name,
    ...proof,
    timeout: timeoutMs,
    maxReconnectAttempts: -1,
    reconnectTimeWait: retryMs,
    reconnectJitter: retryMs,
    pingInterval: 2_000,
    maxPingOut: 2,
    noAsyncTraces: true,
  });
}

/** True when `version` is at least {@link serverVersionMin}; false for text that is no version. */
export function isRecent(version: string): boolean {
  const have = version.split(".").map((part) => Number.parseInt(part, 10));
  const need = serverVersionMin.split(".").map(Number);
  for (let i = 0; i < need.length; i++) {
    const difference = (have[i] ?? Number.NaN) - (need[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}

/** True when the server takes a connection without credentials. */
export async function acceptsAnonymous(url: string): Promise<boolean> {
  try {
    const connection = await connectNode({
      servers: url.split(","),
      name: "self-test",
      reconnect: false,
      timeout: 2_000,
    });
    await connection.close();
    return true;
  } catch (error) {
    if (isAuthFailure(error)) return false;
    throw errors.BrokerUnreachable({ url, timeoutMs: 2_000, reason: messageOf(error) }, error);
  }
}
