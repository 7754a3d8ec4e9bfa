/** The configuration of a local nats-server. Loopback only, everybody has a user, default deny. */
import { headersBytesMax, messageBytesMax, streamRules } from "../streams.ts";
import { accountsOf, operatorToken } from "./accounts.ts";
import type { ServerFiles } from "./files.ts";
import type { ServerKeys } from "./keys.ts";

const pingMsDefault = 2_000;

/** What a configuration is made of. */
export interface ServerConfig {
  readonly job: string;
  /** 0 lets the system choose a free one. */
  readonly port: number;
  /** Opens the HTTP monitoring endpoint on loopback, on a free port. */
  readonly monitoring?: boolean;
  /** Milliseconds between two pings of a client; the connection of one that misses two ends at the next. Default 2,000. */
  readonly pingMs?: number;
  /** What the groups stream will hold; the store has room for it beside the other streams. Default that of the table of streams. */
  readonly groupsBytes?: number;
  readonly files: ServerFiles;
  readonly keys: ServerKeys;
}

/**
 * Writes the configuration of a server, which holds no secret: accounts stand in it as tokens that the operator signed.
 * Every write is synced to disk before it is acknowledged: the default of two minutes loses acknowledged messages on power loss.
 */
export function renderConfig(config: ServerConfig): string {
  const { job, files, keys } = config;
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
    `jetstream { store_dir: ${quote(files.store)}, max_mem: 268435456, max_file: ${storeBytesOf(config)}, sync_interval: always }`,
    `operator: ${quote(operatorToken(keys))}`,
    `system_account: ${quote(keys.credentials.system.account)}`,
    "resolver: MEMORY",
    "resolver_preload {",
    ...accountsOf(job, keys).flatMap(({ name, key, token }) => [`  # ${name}`, `  ${key}: ${quote(token)}`]),
    "}",
    "",
  ].join("\n");
}

/** Room of the store beside the groups stream: more than the other streams of the table have together. */
const otherStreamsBytes = 6 * 1024 ** 3;

/** For each job that the server has. */
const storeBytesOf = ({ groupsBytes = streamRules.groups.bytesMax, keys }: ServerConfig): number =>
  (1 + Object.keys(keys.others ?? {}).length) * (otherStreamsBytes + groupsBytes);

/** A string of the configuration language; its escapes are those of JSON for the characters that occur here. */
function quote(text: string): string {
  return JSON.stringify(text);
}
