/** The configuration of a local nats-server, and the credentials in it. Loopback only, everybody has a user, default deny. */
import { randomBytes } from "node:crypto";
import type { Credentials } from "../nats/connect.ts";
import { headersBytesMax, messageBytesMax } from "../streams.ts";
import type { ServerFiles } from "./files.ts";
import { type BrokerRole, brokerRoles, inboxPrefixOf, permissionsOf } from "./roles.ts";

/** The users of a local server: one per role, and `system` for {@link watchDisconnects}. */
export type ServerCredentials = Readonly<Record<BrokerRole | "system", Credentials>>;

const secretBytes = 32;
const pingMsDefault = 2_000;

/** Generates new credentials, 256 random bits each. */
export function generateCredentials(): ServerCredentials {
  const roles = brokerRoles.map((role) => [role, credentialsOf(role, inboxPrefixOf(role))]);
  return { ...Object.fromEntries(roles), system: credentialsOf("system", "_INBOX_system") } as ServerCredentials;
}

function credentialsOf(user: string, inboxPrefix: string): Credentials {
  return { user, password: randomBytes(secretBytes).toString("base64url"), inboxPrefix };
}

/** What a configuration is made of. */
export interface ServerConfig {
  readonly job: string;
  /** 0 lets the system choose a free one. */
  readonly port: number;
  /** Opens the HTTP monitoring endpoint on loopback, on a free port. */
  readonly monitoring?: boolean;
  /** Milliseconds between two pings of a client; the connection of one that misses two ends at the next. Default 2,000. */
  readonly pingMs?: number;
  readonly files: ServerFiles;
  readonly credentials: ServerCredentials;
}

/**
 * Writes the configuration of a server. Passwords are in clear, so the file must be readable by its owner alone (0600).
 * Every write is synced to disk before it is acknowledged: the default of two minutes loses acknowledged messages on power loss.
 */
export function renderConfig(config: ServerConfig): string {
  const { job, files, credentials } = config;
  const users = brokerRoles.map((role) => {
    const { publish, subscribe } = permissionsOf(job, role);
    const permissions = `publish: { allow: ${list(publish)} }, subscribe: { allow: ${list(subscribe)} }`;
    return `      { ${login(credentials[role])}, permissions: { ${permissions} } }`;
  });
  const system = `permissions: { publish: { deny: ">" }, subscribe: { allow: ["$SYS.ACCOUNT.*.DISCONNECT"] } }`;
  const monitoring = config.monitoring ? ['http: "127.0.0.1:-1"'] : [];
  return [
    `server_name: ${quote(`muster-${job}`)}`,
    `listen: "127.0.0.1:${config.port || -1}"`,
    ...monitoring,
    `ports_file_dir: ${quote(files.ports)}`,
    `pid_file: ${quote(files.pid)}`,
    `logfile: ${quote(files.log)}`,
    "logfile_size_limit: 16777216",
    "logfile_max_num: 3",
    `max_payload: ${messageBytesMax + headersBytesMax}`,
    `ping_interval: "${config.pingMs ?? pingMsDefault}ms"`,
    "ping_max: 2",
    'write_deadline: "2s"',
    `jetstream { store_dir: ${quote(files.store)}, max_mem: 268435456, max_file: 8589934592, sync_interval: always }`,
    "accounts {",
    "  JOB { jetstream: enabled, users: [",
    users.join("\n"),
    "  ] }",
    `  SYS { users: [ { ${login(credentials.system)}, ${system} } ] }`,
    "}",
    "system_account: SYS",
    "",
  ].join("\n");
}

function login({ user, password }: Credentials): string {
  return `user: ${quote(user)}, password: ${quote(password)}`;
}

function list(subjects: readonly string[]): string {
  return `[${subjects.map(quote).join(", ")}]`;
}

/** A string of the configuration language; its escapes are those of JSON for the characters that occur here. */
function quote(text: string): string {
  return JSON.stringify(text);
}
