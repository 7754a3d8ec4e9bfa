/** `muster router`: one address for many inference engines. */
import type { Logger } from "@muster/base";
import { shownHost } from "@muster/http";
import type { Router } from "@muster/router";
import { checkRouterConfig, type RouterConfig, routerDefaults } from "@muster/router/config";
import { createLogger, type ExitCode, exitCodes, installLifecycle, sayLastWords, systemClock } from "@muster/runtime";
import { createMetrics } from "@muster/runtime/metrics";
import { type Command, Option } from "commander";
import { runsDefault } from "../composition/runs.ts";
import { type TlsOptions, tlsOf, withTls } from "../composition/tls.ts";
import { tokenOf } from "../composition/tokens.ts";
import { errors } from "../errors.ts";
import { findRun } from "../job/find-run.ts";
import { followServing } from "../job/serving-files.ts";
import { collect, countOf, durationOf, levelOf, portOf, secondsOf, sizeOf, withLogLevel } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends TlsOptions {
  readonly worker: readonly string[];
  readonly enginesResume?: boolean;
  readonly job?: string;
  readonly runs: string;
  readonly host: string;
  readonly port: string;
  readonly healthFirstWait: string;
  readonly healthInterval: string;
  readonly healthTimeout: string;
  readonly healthThreshold: string;
  readonly readmitUnverified?: boolean;
  readonly maxStaleness?: string;
  readonly maxConnections: string;
  readonly workerConnections: string;
  readonly queue: string;
  readonly queueTimeout: string;
  readonly requestTimeout: string;
  readonly stallTimeout: string;
  readonly attempts: string;
  readonly stickyIdle: string;
  readonly bodyLimit: string;
  readonly bodiesLimit: string;
  readonly tokenFile?: string;
  readonly adminTokenFile?: string;
  readonly engineTokenFile?: string;
  readonly sessions?: string;
  readonly sessionIdle: string;
  readonly grace: string;
  readonly logLevel: string;
  readonly json?: boolean;
}

/** Names that slime has for what has another name here, and the option that each stands for. Their values are seconds, counts, or nothing. */
const slimeNames = [
  ["rollout-health-check-first-wait", "seconds", "healthFirstWait", "slime's name of --health-first-wait, in seconds"],
  ["rollout-health-check-interval", "seconds", "healthInterval", "slime's name of --health-interval, in seconds"],
  ["rollout-health-check-timeout", "seconds", "healthTimeout", "slime's name of --health-timeout, in seconds"],
  ["slime-router-health-check-failure-threshold", "n", "healthThreshold", "slime's name of --health-threshold"],
  ["slime-router-timeout", "seconds", "requestTimeout", "slime's name of --request-timeout, in seconds"],
  ["slime-router-max-connections", "n", "maxConnections", "slime's name of --max-connections"],
  ["slime-router-sticky-idle-secs", "seconds", "stickyIdle", "slime's name of --sticky-idle, in seconds"],
] as const;

/** Adds the command. */
export function addRouterCommand(program: Command): void {
  const { pool, queue, attempt, retry, http, sessions, healthTimeoutMs } = routerDefaults;
  const seconds = (ms: number): string => `${ms / 1000}s`;
  const command = listed(program, "router")
    .option("--worker <url>", "address of an engine, http://HOST:PORT; give it for each", collect, [])
    .option("--engines-resume", "the engines of --worker go on with a response, from prompt and tokens so far")
    .option("--job <name>", "also the samplers of this job that serve on this host")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--host <address>", "where to listen; others than loopback need tokens", routerDefaults.host)
    .option("--port <port>", "port to listen on; 0 for any free one", `${routerDefaults.port}`)
    .option("--health-first-wait <duration>", "how long a new engine may fail", seconds(pool.health.firstWaitMs))
    .option("--health-interval <duration>", "time between two checks of an engine", seconds(pool.health.intervalMs))
    .option("--health-timeout <duration>", "time that one check may take", seconds(healthTimeoutMs))
    .option("--health-threshold <n>", "failed checks in a row before quarantine", `${pool.health.threshold}`)
    .option("--readmit-unverified", "engines that do not say their weights leave quarantine when they answer")
    .option("--max-staleness <n>", "versions that answers may be behind, where a request says nothing (default: any)")
    .option("--max-connections <n>", "requests at engines at once", `${queue.activeMax}`)
    .option("--worker-connections <n>", "requests at one engine at once", `${pool.activeMax}`)
    .option("--queue <n>", "requests that may wait for an engine", `${queue.queueMax}`)
    .option("--queue-timeout <duration>", "how long one may wait", seconds(queue.queueTimeoutMs))
    .option("--request-timeout <duration>", "time for an attempt, to the end of its answer", seconds(attempt.timeoutMs))
    .option("--stall-timeout <duration>", "silence in the middle of an answer", seconds(attempt.stallMs))
    .option("--attempts <n>", "attempts of one request, the first included", `${retry.attemptsMax}`)
    .option("--sticky-idle <duration>", "when an unused routing key is forgotten", seconds(pool.stickyIdleMs))
    .option("--body-limit <size>", "largest body of a request", `${http.bodyBytesMax / 1024 ** 2}MiB`)
    .option("--bodies-limit <size>", "bodies of all requests together", `${http.bodiesBytesMax / 1024 ** 3}GiB`)
    .option("--token-file <file>", "file with the token of clients (or MUSTER_ROUTER_TOKEN)")
    .option("--admin-token-file <file>", "file with the token of operators (or MUSTER_ROUTER_ADMIN_TOKEN)")
    .option("--engine-token-file <file>", "file with the token that engines ask for (or MUSTER_ROUTER_ENGINE_TOKEN)")
    .option("--sessions <folder>", "keep the sessions of agents here: POST /sessions begins one")
    .option("--session-idle <duration>", "when an unused session ends", seconds(sessions.idleMs))
    .option("--grace <duration>", "how long running requests have after Ctrl-C", "30s")
    .option("--json", "write one line of JSON once it listens, and log lines of JSON");
  for (const [name, value, , says] of slimeNames) command.addOption(new Option(`--${name} <${value}>`, says));
  withLogLevel(withTls(command)).action(async (options: Options) => {
    process.exitCode = await serve(withSlimeNames(options));
  });
}

/** The options with what was given under slime's names. @throws MUSTER_ERR_OPTION_INVALID */
function withSlimeNames(options: Options): Options {
  const given = options as unknown as Readonly<Record<string, string | undefined>>;
  const renamed = slimeNames.flatMap(([name, value, ours]) => {
    const text = given[name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())];
    if (text === undefined) return [];
    return [[ours, value === "seconds" ? `${secondsOf(name, text)}ms` : text]];
  });
  return { ...options, ...Object.fromEntries(renamed) };
}

function configOf(options: Options): RouterConfig {
  const { pool, attempt, retry, http, sessions } = routerDefaults;
  const count = (option: string, text: string, max = 1_000_000): number => countOf(option, text, { min: 1, max });
  return checkRouterConfig({
    host: options.host,
    port: portOf("port", options.port),
    pool: {
      ...pool,
      health: {
        firstWaitMs: durationOf("health-first-wait", options.healthFirstWait),
        intervalMs: durationOf("health-interval", options.healthInterval),
        threshold: count("health-threshold", options.healthThreshold, 1_000),
        readmitUnverified: options.readmitUnverified === true,
      },
      activeMax: count("worker-connections", options.workerConnections),
      stickyIdleMs: durationOf("sticky-idle", options.stickyIdle),
    },
    healthTimeoutMs: durationOf("health-timeout", options.healthTimeout),
    queue: {
      queueMax: countOf("queue", options.queue, { min: 0, max: 1_000_000 }),
      queueTimeoutMs: durationOf("queue-timeout", options.queueTimeout),
      activeMax: count("max-connections", options.maxConnections),
    },
    retry: { ...retry, attemptsMax: count("attempts", options.attempts, 100) },
    attempt: {
      ...attempt,
      timeoutMs: durationOf("request-timeout", options.requestTimeout),
      stallMs: durationOf("stall-timeout", options.stallTimeout),
    },
    http: {
      ...http,
      bodyBytesMax: sizeOf("body-limit", options.bodyLimit),
      bodiesBytesMax: sizeOf("bodies-limit", options.bodiesLimit),
    },
    sessions: { ...sessions, idleMs: durationOf("session-idle", options.sessionIdle) },
    maxStaleness:
      options.maxStaleness === undefined
        ? null
        : countOf("max-staleness", options.maxStaleness, { min: 0, max: Number.MAX_SAFE_INTEGER }),
  });
}

async function serve(options: Options): Promise<ExitCode> {
  const run = options.job === undefined ? null : findRun({ runs: options.runs, job: options.job });
  if (options.worker.length === 0 && !run && options.json !== true)
    process.stderr.write("muster: no engines yet; add them with POST /add_worker?url=http://HOST:PORT\n");
  const level = levelOf(options.logLevel);
  const logger = createLogger({ level, destination: "stderr", pretty: options.json !== true });
  const tls = tlsOf(options);
  const { startRouter } = await import("@muster/router");
  const router = await startRouter({
    config: configOf(options),
    tokens: {
      inference: tokenOf("token-file", options.tokenFile, process.env.MUSTER_ROUTER_TOKEN),
      admin: tokenOf("admin-token-file", options.adminTokenFile, process.env.MUSTER_ROUTER_ADMIN_TOKEN),
    },
    engineToken: tokenOf("engine-token-file", options.engineTokenFile, process.env.MUSTER_ROUTER_ENGINE_TOKEN),
    ...(tls === null ? {} : { tls }),
    ...(options.sessions === undefined ? {} : { sessions: options.sessions }),
    clock: systemClock(),
    logger,
    metrics: createMetrics({ process: true }),
  });
  const stopFollowing = run ? followServing(run.directory, router, { logger }) : () => {};
  try {
    const labels: Readonly<Record<string, string>> = options.enginesResume ? { resumes: "true" } : {};
    for (const url of options.worker)
      if (!router.add(url, labels))
        throw errors.OptionInvalid({ option: "worker", value: url, reason: "is one too many" });
  } catch (error) {
    stopFollowing();
    await router.close(0);
    throw error;
  }
  const url = `${tls === null ? "http" : "https"}://${shownHost(router.host)}:${router.port}`;
  process.stdout.write(options.json ? `${JSON.stringify({ url })}\n` : `the router listens on ${url}, until Ctrl-C\n`);
  return await untilStopped(router, { grace: options.grace, logger, stopFollowing });
}

async function untilStopped(
  router: Router,
  {
    grace,
    logger,
    stopFollowing,
  }: { readonly grace: string; readonly logger: Logger; readonly stopFollowing: () => void },
): Promise<ExitCode> {
  const graceMs = durationOf("grace", grace);
  return await new Promise((done) => {
    installLifecycle({
      onStop: async () => {
        stopFollowing();
        const cut = await router.close(graceMs);
        if (cut > 0) sayLastWords(`${cut} requests did not end within ${grace} and were cut off`);
        const code = cut > 0 ? exitCodes.temporary : exitCodes.ok;
        done(code);
        return code;
      },
      graceMs: graceMs + 2_000,
      logger,
      say: sayLastWords,
      supervised: false,
    });
  });
}
