/** `muster dashboard`: a job in the browser, with the operator's commands. */
import { randomBytes } from "node:crypto";
import { type Logger, silentLogger } from "@muster/base";
import type { Dashboard } from "@muster/dashboard";
import { isLoopback, shownHost } from "@muster/http";
import { type ExitCode, exitCodes, systemClock } from "@muster/runtime";
import type { Command } from "commander";
import { addressOf } from "../composition/http-address.ts";
import { type TlsOptions, tlsOf, withTls } from "../composition/tls.ts";
import { tokenOf } from "../composition/tokens.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { withJob } from "../job/open-job.ts";
import { cleanLine } from "../report/text.ts";
import { newsOf } from "../run/narrator.ts";
import { collect, type LocationOptions, withLocation } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends LocationOptions, TlsOptions {
  readonly listen: string;
  readonly allowHost: readonly string[];
  readonly tokenFile?: string;
  readonly readOnly?: boolean;
  readonly plainHttp?: boolean;
  readonly json?: boolean;
}

const listenDefault = "127.0.0.1:7070";
const tokenMin = 16;
const tokenMax = 512;

/** Adds the command. */
export function addDashboardCommand(program: Command): void {
  const command = listed(program, "dashboard");
  withTls(withLocation(command))
    .option("--listen <host:port>", "where the page is served; port 0 for any free one", listenDefault)
    .option("--allow-host <name>", "another name by which browsers call this host; may be repeated", collect, [])
    .option("--token-file <file>", "file with the token that readers must have (default: a new one at each start)")
    .option("--plain-http", "let the token cross the network unencrypted")
    .option("--read-only", "show, and take no commands")
    .option("--json", "write one line of JSON once it is served: its address with the token")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) => serve(options, signal));
    });
}

async function serve(options: Options, signal: AbortSignal): Promise<ExitCode> {
  const tls = tlsOf(options);
  const { host, port } = listenAt(options);
  const token = tokenFor(options.tokenFile);
  return await withJob(options, async ({ client }) => {
    const { openDashboard } = await import("@muster/dashboard");
    const dashboard = await openDashboard({
      ...{ client, host, port, token, hostNames: options.allowHost, isReadOnly: options.readOnly === true },
      ...(tls === null ? {} : { tls }),
      ...{ say: newsOf, clock: systemClock(), log: warnings },
    });
    try {
      sayAddress(dashboard, { scheme: tls === null ? "http" : "https", host, token, isJson: options.json === true });
      await new Promise<void>((done) => {
        if (signal.aborted) done();
        signal.addEventListener("abort", () => done(), { once: true });
      });
      return exitCodes.ok;
    } finally {
      await dashboard.close();
    }
  });
}

function sayAddress(
  dashboard: Dashboard,
  { scheme, host, token, isJson }: { scheme: string; host: string; token: string; isJson: boolean },
): void {
  const shown = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : shownHost(host);
  const url = `${scheme}://${shown}:${dashboard.port}/#token=${token}`;
  process.stdout.write(
    isJson ? `${JSON.stringify({ url })}\n` : `open ${url}\nCtrl-C ends the page; the job goes on\n`,
  );
}

/** @throws MUSTER_ERR_OPTION_INVALID for what is no address, and for one of the network without TLS that nobody allowed. */
function listenAt({ listen, tlsCert, plainHttp = false }: Options): { readonly host: string; readonly port: number } {
  const address = addressOf("listen", listen, listenDefault);
  if (isLoopback(address.host) || tlsCert !== undefined || plainHttp) return address;
  const reason = "is reached from other hosts: give --tls-cert and --tls-key, use ssh -L, or say --plain-http";
  throw errors.OptionInvalid({ option: "listen", value: listen, reason });
}

/** The token of the file, a new one without. @throws MUSTER_ERR_RUN_FILE, MUSTER_ERR_SECRET_OPEN, MUSTER_ERR_OPTION_INVALID */
function tokenFor(file: string | undefined): string {
  const token = tokenOf("token-file", file, undefined);
  if (token === null) return randomBytes(24).toString("base64url");
  if (/^[\x21-\x7e]+$/.test(token) && token.length >= tokenMin && token.length <= tokenMax) return token;
  const reason = `holds no token: one word of ${tokenMin} to ${tokenMax} characters is wanted`;
  throw errors.OptionInvalid({ option: "token-file", value: file ?? "", reason });
}

/** What needs an eye goes to standard error, each sentence once in a row. */
const warnings: Logger = (() => {
  let last = "";
  const warn = (fields: object, message: string): void => {
    const { reason = "" } = fields as { readonly reason?: string };
    const line = `muster: ${message}${reason === "" ? "" : `: ${cleanLine(reason)}`}\n`;
    if (line !== last) process.stderr.write(line);
    last = line;
  };
  const info = (fields: object, message: string): void =>
    void process.stderr.write(`muster: ${message}: ${cleanLine(JSON.stringify(fields), 300)}\n`);
  return { ...silentLogger, info, warn };
})();
