/** Asks the broker for things no {@link Transport} offers, to see that it refuses them. */
import { type BrokerRole, credentialsOfReplica } from "@muster/transport";
import { connect, headers, jwtAuthenticator, type MsgHdrs, type NatsConnection } from "@nats-io/transport-node";
import type { TestServer } from "./test-server.ts";

const waitMs = 500;

/** What became of a request: refused by permissions, answered (well or badly), or nobody was there. */
export type RawOutcome = "refused" | "answered" | "silent";

/** One request to be tried. */
export interface RawRequest {
  readonly role: BrokerRole;
  readonly subject: string;
  /** Default `{}`. */
  readonly body?: object;
}

/** Sends one request as the user of a role. */
export async function requestAs(server: TestServer, request: RawRequest): Promise<RawOutcome> {
  const connection = await connectRaw(server, request.role);
  try {
    return await outcomeOf(connection, request);
  } finally {
    await connection.close();
  }
}

/** A connection of the client library itself, as one process of a role: for what no {@link Transport} would say. */
export function connectRaw(server: TestServer, role: BrokerRole, id = `${role}-attacker`): Promise<NatsConnection> {
  const { seed, replica } = credentialsOfReplica(server.server.credentials[role], id);
  const authenticator = jwtAuthenticator(replica?.token ?? "", new TextEncoder().encode(seed));
  return connect({ servers: server.url, authenticator, inboxPrefix: `_INBOX_${role}.${id}`, reconnect: false });
}

/** Headers of a raw message. */
export function rawHeaders(entries: Readonly<Record<string, string>>): MsgHdrs {
  const made = headers();
  for (const [name, value] of Object.entries(entries)) made.set(name, value);
  return made;
}

async function outcomeOf(connection: NatsConnection, { subject, body = {} }: RawRequest): Promise<RawOutcome> {
  try {
    await connection.request(subject, JSON.stringify(body), { timeout: waitMs });
    return "answered";
  } catch (error) {
    return error instanceof Error && /permissions violation/i.test(error.message) ? "refused" : "silent";
  }
}
