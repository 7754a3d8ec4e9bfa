/** Asks the broker for things no {@link Transport} offers, to see that it refuses them. */
import type { BrokerRole } from "@muster/transport";
import { connect, type NatsConnection } from "@nats-io/transport-node";
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
  const { user, password, inboxPrefix = "_INBOX" } = server.server.credentials[request.role];
  const connection = await connect({ servers: server.url, user, pass: password, inboxPrefix, reconnect: false });
  try {
    return await outcomeOf(connection, request);
  } finally {
    await connection.close();
  }
}

async function outcomeOf(connection: NatsConnection, { subject, body = {} }: RawRequest): Promise<RawOutcome> {
  try {
    await connection.request(subject, JSON.stringify(body), { timeout: waitMs });
    return "answered";
  } catch (error) {
    return error instanceof Error && /permissions violation/i.test(error.message) ? "refused" : "silent";
  }
}
