/** `muster run JOB.toml`: a whole job on this machine. */

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { findDevices } from "@muster/actors";
import { checkId, type JobConfig } from "@muster/protocol";
import { exitCodes, systemClock } from "@muster/runtime";
import { explainConfig, type LoadedJob } from "@muster/runtime/config";
import { hasTerminal } from "@muster/runtime/process";
import { type Command, Option } from "commander";
import { loadJobFile } from "../composition/job-file.ts";
import { checkStoredTask } from "../composition/modules/try-task.ts";
import { pasted, wayTo } from "../composition/pasted.ts";
import { newestName, runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { endAnyway } from "../job/last-resort.ts";
import { whenOutputIsLost } from "../job/output.ts";
import { masterPlanOf, networkOf, ownAddressOf, runRank } from "../multinode/launch.ts";
import {
  jobFlagsOf,
  type Launch,
  launchOf,
  type MultiNodeOptions,
  phaseOf,
  placeOf,
  samplersOf,
  withMultiNode,
} from "../multinode/options.ts";
import { cleanLine, createProgress, summaryText, terminalCurve } from "../report/index.ts";
import { type Resumed, resumedRun } from "../run/resumed.ts";
import { readStored, socketDirectoryOf } from "../run/run-directory.ts";
import { runJob } from "../run/run-job.ts";
import type { RunEnd } from "../run/run-options.ts";
import { type Terminal, terminalOf } from "../terminal/terminal.ts";
import { wrappedText } from "../terminal/wrap.ts";
import { devicesOf, jobFileDefault, levelOf, portOf, sizeOf, stepOf, withLogLevel } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends MultiNodeOptions {
  readonly job?: string;
  readonly resume?: string | true;
  readonly fromStep?: string;
  readonly runs: string;
  readonly seed?: string;
  readonly steps?: string;
  readonly policy?: string;
  readonly rollout?: string;
  readonly checkpoint?: string;
  readonly nodes: string;
  readonly devices?: string;
  readonly mode?: string;
  readonly set: readonly string[];
  readonly metricsPort?: string;
  readonly controllers: string;
  readonly advertise?: string;
  readonly port?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly supervised?: boolean;
  readonly storeLost?: boolean;
  readonly history: string;
  readonly logLevel: string;
}

/** More supervisors than this on one host do nothing that one does not. */
const nodesMax = 64;

const historyDefault = "1GiB";
const historyMin = 1024 ** 2;

const collect = (value: string, all: readonly string[]): readonly string[] => [...all, value];

/** Adds the command. */
export function addRunCommand(program: Command): void {
  const described = listed(program, "run");
  withLogLevel(withMultiNode(described))
    .argument("[file]", `job file (default: the stored configuration of --job, else ${jobFileDefault})`)
    .option("--job <name>", "name of the run; an existing one is resumed (default: <job name>-<time>)")
    .option("--resume [run]", "go on with a run (default: the newest); --set then changes settings of it")
    .option("--from-step <n>", "with --resume and --set: first step with the settings (default: the next one)")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--seed <n>", "seed of the job")
    .option("--steps <n>", "steps to commit")
    .option("--policy <n>", "policy replicas")
    .option("--rollout <n>", "rollout replicas")
    .option("--checkpoint <n>", "checkpoint actors")
    .option("--nodes <n>", "nodes that run the replicas, 1 to 64", "1")
    .option(
      "--devices <ids>",
      "GPUs for the replicas, e.g. 0-3, or none; shared out among the nodes (default: all that are found)",
    )
    .addOption(new Option("--mode <mode>", "sync: staleness 0; async: bounded staleness").choices(["sync", "async"]))
    .option(
      "--set <key=value>",
      "set any key of the job file, e.g. --set batch.group_size=16; may be repeated",
      collect,
      [],
    )
    .option("--metrics-port <port>", "serve the controller's /metrics and /healthz on 127.0.0.1; 0 for any free port")
    .option("--controllers <n>", "controllers: one acts, the others stand by", "1")
    .option(
      "--port <port>",
      "port of the run's broker; 0 for any free one (default: the one of before, another one when it is taken)",
    )
    .option("--advertise <url>", "address by which the actors reach the broker, e.g. of a proxy (default: its own)")
    .option("--store-lost", "the broker's store is lost for good: go on from the newest checkpoint")
    .option(
      "--history <size>",
      "how much is kept of each of events.jsonl, audit.jsonl and metrics.jsonl, from 1 MiB on; the oldest goes",
      historyDefault,
    )
    .option("--json", "end with one line of JSON on standard output")
    .option("--quiet", "no progress")
    .option(
      "--supervised",
      "started by a program that holds standard input open; the run ends as at Ctrl-C when it closes",
    )
    .action(async (file: string | undefined, options: Options) => {
      process.exitCode = await run(file, options);
    });
}

async function run(file: string | undefined, given: Options) {
  const options = placeOf(given);
  const launch = launchOf(options, process.env);
  const at = { env: process.env, logLevel: levelOf(options.logLevel) };
  if (launch !== null && launch.rank > 0) {
    jobFlagsOf(options);
    return await runRank(launch, options, at);
  }
  const { config, configText, change, prolongedAfter } = await chosenOf(file, options, launch);
  const name = config.job;
  const runs = resolve(options.runs);
  const terminal = terminalOf(process.stderr, process.env);
  const progress = createProgress({
    terminal: options.quiet ? { ...terminal, write: () => {} } : terminal,
    clock: systemClock(),
    wallMs: Date.now,
  });
  const interrupt = interruptSignal(options.supervised === true);
  if (!options.quiet)
    process.stderr.write(
      `job ${name}: ${change?.settings.steps ?? config.steps} steps of ${config.task.name}; join it with: ${pasted("rollout", ...wayTo(name, options.runs))}\n`,
    );
  try {
    const end = await runJob({
      config,
      configText,
      runs,
      nodes: await nodeDevicesOf(config, options),
      master: launch && masterPlanOf(launch, options, { ...at, config, own: await ownAddressOf(options, process.env) }),
      env: process.env,
      logLevel: levelOf(options.logLevel),
      metricsPort: options.metricsPort === undefined ? null : portOf("metrics-port", options.metricsPort),
      controllers: controllersOf(options.controllers),
      port: options.port === undefined ? null : portOf("port", options.port),
      advertisedUrl: options.advertise ?? null,
      change,
      prolongedAfter,
      resume: pasted("run", ...wayTo(name, options.runs), ...hostOptions(options)),
      phase: phaseOf(options),
      isStoreLost: options.storeLost === true,
      historyBytes: historyOf(options.history),
      progress,
      interrupted: interrupt.signal,
    });
    progress.end();
    show(end, options, terminal);
    return end.exitCode;
  } finally {
    progress.end();
    interrupt.dispose();
  }
}

function historyOf(value: string): number {
  const bytes = sizeOf("history", value);
  if (bytes >= historyMin) return bytes;
  throw errors.OptionInvalid({ option: "history", value, reason: "is less than 1MiB" });
}

function nodesOf(value: string): number {
  const nodes = Number(value);
  if (Number.isInteger(nodes) && nodes >= 1 && nodes <= nodesMax) return nodes;
  throw errors.OptionInvalid({ option: "nodes", value, reason: `is not a number of nodes; use 1 to ${nodesMax}` });
}

/** The devices of each node: those of this host, shared out in turn, where the job gives devices to anybody. */
async function nodeDevicesOf({ devices }: JobConfig, options: Options): Promise<readonly (readonly string[])[]> {
  const nodes = nodesOf(options.nodes);
  const given = devicesOf(options.devices);
  const isUsed = Object.values(devices ?? {}).some((count) => count > 0);
  const all = given ?? (isUsed ? await findDevices({ env: process.env }) : []);
  const share = (of: number): number => Math.ceil((of * all.length) / nodes);
  return Array.from({ length: nodes }, (_, i) => all.slice(share(i), share(i + 1)));
}

/** What a run is made from: its configuration, and the text that is kept of it. */
type Chosen = Omit<Resumed, "change" | "prolongedAfter">;

async function chosenOf(file: string | undefined, options: Options, launch: Launch | null): Promise<Resumed> {
  const { resume, job, set, runs } = options;
  const fromStep = stepOf("from-step", options.fromStep);
  if (resume === undefined) {
    if (fromStep !== undefined)
      throw errors.OptionInvalid({
        option: "from-step",
        value: `${fromStep}`,
        reason: "belongs to --resume and --set",
      });
    const chosen = (await storedOf(file, options)) ?? (await readOf(file ?? jobFileDefault, options, launch));
    return { ...chosen, change: null, prolongedAfter: null };
  }
  const name = resume === true ? (job ?? newestName) : resume;
  const other = file ?? (job === name ? undefined : job);
  if (other !== undefined)
    throw errors.OptionInvalid({
      option: "resume",
      value: name,
      reason: `goes on with what it began with; leave ${other} out`,
    });
  const flags = { ...flagsOf(options), ...jobFlagsOf(options) };
  const resumed = await resumedRun(name, { runs, set, fromStep, flags, env: process.env });
  await checkStoredTask(resumed.config);
  return resumed;
}

/** The configuration with which an earlier process began this run, when nothing else was asked for. */
async function storedOf(file: string | undefined, options: Options): Promise<Chosen | null> {
  if (options.job === undefined || file !== undefined || options.set.length > 0) return null;
  if (Object.keys({ ...flagsOf(options), ...jobFlagsOf(options) }).length > 0) return null;
  const stored = readStored(join(resolve(options.runs), checkId("job", options.job)));
  if (stored) await checkStoredTask(stored.config);
  return stored;
}

async function readOf(file: string, options: Options, launch: Launch | null): Promise<Chosen> {
  const path = resolve(file);
  const flags = { ...launchFlagsOf(options, launch), ...flagsOf(options), ...jobFlagsOf(options) };
  const read = await loadJobFile({ file: path, set: options.set, flags });
  const network =
    launch === null || isChosen(read, "data.tcp_host") ? null : networkOf(await ownAddressOf(options, process.env));
  const more = { ...flags, "data.tcp_host": network ?? "" };
  const job = network === null ? read : await loadJobFile({ file: path, set: options.set, flags: more });
  const name = checkId("job", options.job ?? `${job.config.job}-${timeName(new Date())}`);
  const settings = explainConfig(job).map(({ key, value, source }) => `# ${source}\n${key} = ${value}`);
  const configText = `${readFileSync(path, "utf8").trimEnd()}\n\n# Every setting of this run\n${settings.join("\n")}\n`;
  return { config: configOf(job, name, resolve(options.runs)), configText };
}

/** What is not in the configuration of a job and must be said again. */
function hostOptions(options: Options): readonly string[] {
  const { nodes, devices, controllers, history, metricsPort, master } = options;
  const more = {
    "--num-nodes": options.numNodes,
    "--rank-weights": options.rankWeights,
    "--master-addr": options.masterAddr,
    "--master-port": options.masterPort,
    "--join-token-file": options.joinTokenFile,
    "--rl-phase": options.rlPhase,
    "--trajectories": options.trajectories,
    "--quorum": options.quorum,
    "--nodes": nodes === "1" ? undefined : nodes,
    "--devices": devices,
    "--controllers": controllers === "1" ? undefined : controllers,
    "--history": history === historyDefault ? undefined : history,
  };
  const all = { ...more, "--metrics-port": metricsPort };
  const said = Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
  return [...(master ? ["--master"] : []), ...said];
}

/** As many samplers as the shares of several hosts need, unless somebody says how many. */
function launchFlagsOf({ set }: Options, launch: Launch | null): Record<string, number> {
  const isSaid = launch === null || set.some((each) => each.startsWith("replicas.rollout="));
  return isSaid ? {} : { "replicas.rollout": samplersOf(launch.weights) };
}

const isChosen = (job: LoadedJob, key: string): boolean =>
  explainConfig(job).some((setting) => setting.key === key && setting.source !== "default");

/** The configuration of this very run: its name, and folders of its own unless the user chose others. */
function configOf(job: LoadedJob, name: string, runs: string): JobConfig {
  const { config } = job;
  const directory = isChosen(job, "checkpoint.directory")
    ? config.checkpoint.directory
    : resolve(runs, name, "checkpoints");
  const socketDirectory = isChosen(job, "data.socket_directory")
    ? config.data.socketDirectory
    : socketDirectoryOf(runs, name);
  return {
    ...config,
    job: name,
    checkpoint: { ...config.checkpoint, directory },
    data: { ...config.data, socketDirectory },
  };
}

/** The curve and the table for people, one line of JSON for programs. */
function show({ record, directory, outcome, reason, exitCode }: RunEnd, options: Options, terminal: Terminal): void {
  if (!options.quiet) {
    const width = terminal.isLive ? Math.max(40, terminal.columns() - 1) : Number.POSITIVE_INFINITY;
    const isJudged = record.steps.some(({ reward }) => reward !== null);
    const points = record.steps.flatMap(({ step, reward, loss }) => {
      const y = isJudged ? reward : loss;
      return y === null ? [] : [{ x: step, y }];
    });
    if (points.length > 1)
      process.stderr.write(
        `\n${terminalCurve(points, { width: Math.min(72, width), height: 14, label: isJudged ? "mean reward by step" : "loss by step" })}\n`,
      );
    process.stderr.write(`\n${wrappedText(summaryText(record.summary), width)}\n`);
    const said = outcome === "interrupted" && exitCode === exitCodes.ok ? "" : `${outcome}: `;
    if (outcome !== "done") process.stderr.write(`\n${said}${reason}\n`);
    process.stderr.write(`\nreport: ${resolve(directory, "report.html")}\n`);
  }
  // Whoever wants no progress still wants to know why there is no result.
  else if (outcome === "failed")
    process.stderr.write(`muster: job ${record.summary.job} failed: ${cleanLine(reason)}\n`);
  if (options.json) process.stdout.write(`${JSON.stringify(record.summary)}\n`);
}

function controllersOf(value: string): number {
  const count = Number(value);
  if (Number.isInteger(count) && count >= 1 && count <= 9) return count;
  throw errors.OptionInvalid({ option: "controllers", value, reason: "is not a number from 1 to 9" });
}

function flagsOf(options: Options): Record<string, string | number | boolean> {
  const named = {
    "job.seed": options.seed,
    "job.steps": options.steps,
    "job.mode": options.mode,
    "replicas.policy": options.policy,
    "replicas.rollout": options.rollout,
    "replicas.checkpoint": options.checkpoint,
  };
  return Object.fromEntries(
    Object.entries(named).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

/** First Ctrl-C, the end of the terminal, or nobody reads what the run says: a clean end. Second Ctrl-C: this process ends at once, and its children with it, since their input closes. */
function interruptSignal(isSupervised: boolean): { readonly signal: AbortSignal; dispose(): void } {
  const controller = new AbortController();
  const orphaned = (): void => controller.abort();
  const forget = whenOutputIsLost(orphaned);
  const end = (name: NodeJS.Signals): void => {
    endAnyway(name);
    controller.abort();
  };
  const stop = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(130);
    end(name);
  };
  const onTerminal = hasTerminal();
  const hangUp = (name: NodeJS.Signals): void => {
    if (onTerminal && !controller.signal.aborted) end(name);
  };
  const handlers = { SIGINT: stop, SIGTERM: stop, SIGHUP: hangUp } as const;
  for (const [name, handler] of Object.entries(handlers)) process.on(name, handler);
  if (isSupervised) {
    for (const event of ["end", "close"]) process.stdin.on(event, orphaned);
    process.stdin.resume();
  }
  return {
    signal: controller.signal,
    dispose() {
      forget();
      for (const [name, handler] of Object.entries(handlers)) process.off(name, handler);
      for (const event of ["end", "close"]) process.stdin.off(event, orphaned);
      // An open input would keep this process alive.
      if (isSupervised) process.stdin.destroy();
    },
  };
}

function timeName(now: Date): string {
  const pad = (value: number): string => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}${pad(now.getMonth() + 1)}${pad(now.getDate())}`;
  return `${day}-${pad(now.getHours())}${pad(now.getMinutes())}${pad(now.getSeconds())}`;
}
