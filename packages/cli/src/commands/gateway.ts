/** `muster gateway`: the checkpoint service's coordinator over HTTP, alone. */
import { resolve } from "node:path";
import { messageOf } from "@muster/base";
import type { Gateway, GatewayOptions } from "@muster/gateway";
import { createLogger, type ExitCode, exitCodes, systemClock } from "@muster/runtime";
import type { Command } from "commander";
import { type TlsOptions, tlsOf, withTls } from "../composition/tls.ts";
import { secretOf } from "../composition/tokens.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { collect, durationOf, levelOf, portOf, withLogLevel } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends TlsOptions {
  readonly host: string;
  readonly port: string;
  readonly state?: string;
  readonly heartbeatTimeout: string;
  readonly roleMapping: readonly string[];
  readonly tokens?: string;
  readonly allowHost: readonly string[];
  readonly allowOrigin: readonly string[];
  readonly plainHttp?: boolean;
  readonly json?: boolean;
  readonly logLevel: string;
}

/** Adds the command. */
export function addGatewayCommand(program: Command): void {
  const command = listed(program, "gateway");
  withTls(withLogLevel(command))
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("--port <port>", "port to listen on; 0 for any free one", "8000")
    .option("--state <folder>", "folder of its journal, with which it goes on after its own death (default: in memory)")
    .option("--heartbeat-timeout <time>", "silence after which a process is dead", "30s")
    .option(
      "--role-mapping <role=peer>",
      "role and the role of its peers; may be repeated (default: actor=rollout)",
      collect,
      [],
    )
    .option("--tokens <file>", "file with a line for each bearer token: its scope (read, write or admin) and the token")
    .option("--allow-host <name>", "name by which it may be called, besides addresses; may be repeated", collect, [])
    .option("--allow-origin <origin>", "origin of pages that may call it; may be repeated", collect, [])
    .option("--plain-http", "let tokens cross the network unencrypted")
    .option("--json", "write one line of JSON once it listens: its address")
    .action(async (options: Options) => {
      const { grantsOf, startGateway } = await import("@muster/gateway");
      // A file that never ends is read here, where a signal ends the process by itself.
      const own = gatewayOptionsOf(options, grantsOf);
      process.exitCode = await untilInterrupted(async (signal) => serve(await startGateway(own), options, signal));
    });
}

async function serve(gateway: Gateway, options: Options, signal: AbortSignal): Promise<ExitCode> {
  try {
    const kept = options.state === undefined ? "in memory: --state keeps it" : `in ${resolve(options.state)}`;
    const text = options.json
      ? JSON.stringify({ url: gateway.url })
      : `the coordinator listens on ${gateway.url} and ${gateway.url}/dcs_coordinator, until Ctrl-C; its state is ${kept}`;
    process.stdout.write(`${text}\n`);
    return await ended(gateway, signal);
  } finally {
    await gateway.close().catch((error: unknown) => process.stderr.write(`muster: ${messageOf(error)}\n`));
  }
}

async function ended(gateway: Gateway, signal: AbortSignal): Promise<ExitCode> {
  const interrupted = new Promise<null>((done) => {
    if (signal.aborted) done(null);
    signal.addEventListener("abort", () => done(null), { once: true });
  });
  const fault = await Promise.race([gateway.failed, interrupted]);
  if (fault === null) return exitCodes.ok;
  process.stderr.write(`muster: ${messageOf(fault)}\n`);
  return exitCodes.failed;
}

function gatewayOptionsOf(options: Options, grantsOf: typeof import("@muster/gateway").grantsOf): GatewayOptions {
  const { tokens } = options;
  const tls = tlsOf(options);
  const heartbeatTimeoutMs = durationOf("heartbeat-timeout", options.heartbeatTimeout);
  const roleMappings = mappingsOf(options.roleMapping);
  return {
    ...{ host: options.host, port: portOf("port", options.port) },
    ...(options.state === undefined ? {} : { stateFolder: resolve(options.state) }),
    rules: { heartbeatTimeoutMs, ...(roleMappings === null ? {} : { roleMappings }) },
    grants: tokens === undefined ? [] : grantsOf(secretOf(tokens), tokens),
    ...{ hosts: options.allowHost.map((name) => name.toLowerCase()), origins: options.allowOrigin },
    ...(tls === null ? {} : { tls }),
    plainHttp: options.plainHttp === true,
    clock: systemClock(),
    logger: createLogger({ level: levelOf(options.logLevel), destination: "stderr", base: { role: "gateway" } }),
  };
}

function mappingsOf(texts: readonly string[]): Readonly<Record<string, string>> | null {
  if (texts.length === 0) return null;
  const pairs = texts.map((text) => {
    const [, role, peer] = /^([\w.-]+)=([\w.-]+)$/.exec(text) ?? [];
    if (role !== undefined && peer !== undefined) return [role, peer] as const;
    const reason = "is not ROLE=PEER, for example actor=rollout";
    throw errors.OptionInvalid({ option: "role-mapping", value: text || '""', reason });
  });
  return Object.fromEntries(pairs);
}
