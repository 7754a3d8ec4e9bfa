/** The broker's own announcements of ended connections: milliseconds after a process is killed, long before a missed heartbeat. */
import { errors } from "../errors.ts";
import type { Subscription } from "../transport.ts";
import { type ConnectOptions, openLink } from "./connect.ts";
import type { Credentials } from "./credentials.ts";
import type { Link } from "./link.ts";
import { nameIn } from "./token.ts";
import { translate } from "./translate.ts";

/** A connection that ended. Evidence, not proof: a client that reconnects looks the same for a moment. */
export interface DisconnectNotice {
  /** The connection's name, `<role>.<id>.<incarnation>` for actors; other clients have names of their own. */
  readonly name: string;
  /** The server's words, for example `Client Closed` or `Stale Connection`. */
  readonly reason: string;
}

/** {@link ConnectOptions} with the credentials of the system account, and who is told. */
export interface WatchDisconnectsOptions extends Omit<ConnectOptions, "job" | "name"> {
  /** The job's accounts by role. A connection's name is a client's own word, its account and user are not: who names itself after another is nobody. */
  readonly users: Readonly<Record<string, Pick<Credentials, "account">>>;
  readonly handle: (notice: DisconnectNotice) => void;
}

/** Where the server announces the ended connections of an account. */
export function disconnectSubject(account: string): string {
  return `$SYS.ACCOUNT.${account}.DISCONNECT`;
}

/**
 * Watches for ended connections of the accounts of the given users. Notices may be missed while this connection is down.
 *
 * @throws the errors of {@link connectNats}, and MUSTER_ERR_BROKER_PERMISSION when the credentials are not of the system account.
 */
export async function watchDisconnects(options: WatchDisconnectsOptions): Promise<Subscription> {
  const link = await openLink({ ...options, name: "system.disconnects.0" });
  try {
    await listen(link, options);
  } catch (error) {
    await link.close();
    throw error;
  }
  return { close: () => link.close() };
}

async function listen(link: Link, options: WatchDisconnectsOptions): Promise<void> {
  let refusal: Error | null = null;
  // The system's own connections are nobody's of a job.
  const users = Object.entries(options.users).filter(([role]) => role !== "system");
  for (const account of new Set(users.map(([, user]) => user.account)))
    link.connection.subscribe(disconnectSubject(account), {
      callback: (error, message) => {
        if (error) refusal = error;
        else forward(link, message.string(), options);
      },
    });
  await link.call("watching disconnects", () => link.connection.flush());
  if (refusal) throw translate(refusal, "watching disconnects");
}

function forward(link: Link, text: string, { users, handle }: WatchDisconnectsOptions): void {
  try {
    const notice = parseNotice(text);
    const [role = "", id] = notice?.name.split(".") ?? [];
    if (notice && users[role]?.account === notice.account && id === notice.user) handle(notice);
  } catch (error) {
    link.report(errors.BrokerFailed({ what: "reading a disconnect notice", reason: String(error) }, error));
  }
}

/** Reads an announcement. @returns `null` for a client without a name or a user. @throws SyntaxError when it is no JSON. */
export function parseNotice(
  text: string,
): (DisconnectNotice & { readonly account: string; readonly user: string }) | null {
  const event = JSON.parse(text) as { readonly client?: Readonly<Record<string, unknown>>; readonly reason?: unknown };
  const { name, acc: account, jwt } = event.client ?? {};
  const user = typeof jwt === "string" ? nameIn(jwt) : null;
  if (typeof name !== "string" || name === "" || typeof user !== "string" || typeof account !== "string") return null;
  return { name, account, user, reason: typeof event.reason === "string" ? event.reason : "" };
}
