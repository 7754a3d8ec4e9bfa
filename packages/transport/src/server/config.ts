/** The configuration of a local nats-server, and the credentials in it. Loopback only, everybody has a user, default deny. */
import { randomBytes } from "node:crypto";
import type { Credentials } from "../nats/connect.ts";
import { headersBytesMax, messageBytesMax } from "../streams.ts";
import type { ServerFiles } from "./files.ts";
import {
  answersOften,
  type BrokerRole,
  brokerRoles,
  type Import,
  importsOf,
  inboxPrefixOf,
  permissionsOf,
} from "./roles.ts";

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
    ...accountsOf(job, credentials),
    `  SYS { users: [ { ${login(credentials.system)}, ${system} } ] }`,
    "}",
    "system_account: SYS",
    "",
  ].join("\n");
}

/**
 * The streams belong to an account of the controller. Every other role is an account of its own that sees of it what it imports: a
 * server does not check the reply subject of a message, so within one account an answer can be led into any place.
 */
function accountsOf(job: string, credentials: ServerCredentials): readonly string[] {
  const exports = exportsOf(job).map(({ kind, subject, roles }) => {
    const answers = kind === "service" && answersOften(subject) ? ", response_type: stream" : "";
    return `      { ${kind}: ${quote(subject)}, accounts: ${list(roles.map(accountOf))}${answers} }`;
  });
  const accounts = guests.map((role) => {
    const place = ({ kind, subject }: Import) => `      { ${kind}: { account: JOB, subject: ${quote(subject)} } }`;
    return [
      `  ${accountOf(role)} {`,
      `    users: [ ${userOf(job, role, credentials)} ]`,
      "    imports: [",
      ...importsOf(job, role).map(place),
      "    ]",
      "  }",
    ];
  });
  return [
    "  JOB {",
    "    jetstream: enabled",
    `    users: [ ${userOf(job, "controller", credentials)} ]`,
    "    exports: [",
    ...exports,
    "    ]",
    "  }",
    ...accounts.flat(),
  ];
}

const guests = brokerRoles.filter((role) => role !== "controller");

/** What the controller's account lends out: each place to those accounts alone that need it. */
function exportsOf(job: string): readonly (Import & { readonly roles: readonly BrokerRole[] })[] {
  const found = new Map<string, Import & { readonly roles: BrokerRole[] }>();
  for (const role of guests)
    for (const { kind, subject } of importsOf(job, role)) {
      const entry = found.get(`${kind} ${subject}`) ?? { kind, subject, roles: [] };
      entry.roles.push(role);
      found.set(`${kind} ${subject}`, entry);
    }
  return [...found.values()];
}

function accountOf(role: BrokerRole): string {
  return role.toUpperCase();
}

function userOf(job: string, role: BrokerRole, credentials: ServerCredentials): string {
  const { publish, subscribe } = permissionsOf(job, role);
  // The controller's process answers at the desk; whoever asked there is known by the server alone.
  const answers = role === "controller" ? ", allow_responses: true" : "";
  const permissions = `publish: { allow: ${list(publish)} }, subscribe: { allow: ${list(subscribe)} }${answers}`;
  return `{ ${login(credentials[role])}, permissions: { ${permissions} } }`;
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
