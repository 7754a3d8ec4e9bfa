/** `muster bench`: how fast this machine moves weights, beside its own limit and beside other programs that are installed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { glooCapabilities } from "@muster/collectives";
import { type ExitCode, exitCodes } from "@muster/runtime";
import { type Command, Option } from "commander";
import { benchAllReduce } from "../bench/allreduce/same-host.ts";
import { watchMachine } from "../bench/machine.ts";
import { allReduceBytes, type Footprint, hostsBytes, tooLarge, weightsBytes } from "../bench/memory.ts";
import { findPeers, type Peer, type PeerName, peerNames } from "../bench/peers.ts";
import { type BenchReport, type BenchRow, headText, reportLine, reportText } from "../bench/report.ts";
import { benchManySections } from "../bench/weights/many-sections.ts";
import { benchSameHost } from "../bench/weights/same-host.ts";
import { benchSeveralHosts } from "../bench/weights/several-hosts.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { listed } from "./list.ts";

/** What a measurement gets from the command line. */
interface BenchContext {
  readonly rounds: number;
  readonly worlds: readonly number[];
  /** Bytes. */
  readonly sizes: readonly number[];
  readonly peers: readonly Peer[];
  /** Whether anything but the limit of the host is compared with. */
  readonly compares: boolean;
  /** Folder for sockets and compiled programs, removed at the end. */
  readonly scratch: string;
  readonly signal: AbortSignal;
  /** Takes each row as soon as it is there. */
  readonly onRow: (row: BenchRow) => void;
  /** Takes a line that belongs into the report. */
  readonly onNote: (line: string) => void;
  /** Takes a line about what goes on. */
  readonly onProgress: (line: string) => void;
}

/** What is measured, and with which of the peers. */
interface Measurement {
  readonly command: string;
  readonly peers: readonly PeerName[];
  /** Option that says how many take part. */
  readonly count: "world" | "hosts";
  readonly measure: (context: BenchContext) => Promise<void>;
}

interface Options {
  readonly world: string;
  readonly size: string;
  readonly rounds: string;
  readonly peers: boolean;
  readonly json?: boolean;
}

interface WeightsOptions extends Options {
  readonly hosts?: string;
  readonly link: string;
}

/** Adds the command and its measurements. */
export function addBenchCommands(program: Command): void {
  const bench = listed(program, "bench");
  withCommon(bench.command("weights").description("measure one version on its way from a trainer to all samplers"))
    .addOption(
      new Option(
        "--hosts [count]",
        "instead down a chain of so many hosts, which are network namespaces of this machine (Linux, root, iproute2)",
      )
        .preset("8")
        .conflicts("world"),
    )
    .option("--link <mbit>", "with --hosts: rate of each host's link in Mbit/s", "2000")
    .action((options: WeightsOptions, command: Command) => {
      const isGiven = (option: string): boolean => command.getOptionValueSource(option) !== "default";
      if (options.hosts !== undefined) return benchHosts(options, options.hosts, !isGiven("size"));
      if (isGiven("link")) throw linkWithoutHosts(options.link);
      return runBench(options, { command: "weights", peers: peerNames, count: "world", measure: benchWeights });
    });
  withCommon(
    bench.command("allreduce").description("measure the sum of gradients over all trainers of a host"),
    "0.0625,1,16,64,256",
  ).action((options: Options) =>
    runBench(options, { command: "allreduce", peers: peerNames, count: "world", measure: benchAllReduceAll }),
  );
}

/** Adds the options that all measurements share. */
function withCommon(command: Command, sizes = "64,256"): Command {
  return command
    .addOption(new Option("--world <counts>", "processes that take part, separated by commas").default("2,4,8"))
    .addOption(new Option("--size <sizes>", "sizes in MiB, separated by commas").default(sizes))
    .option("--rounds <count>", "rounds of each; medians count", "5")
    .option("--no-peers", "leave out the comparison with Open MPI and gloo")
    .option("--json", "end with one line of JSON on standard output");
}

/**
 * Runs a measurement with progress on standard error, and ends with its report, also when it fails in the middle. Ctrl-C ends it and
 * everything that it started.
 */
async function runBench(options: Options, { command, peers: names, count, measure }: Measurement): Promise<void> {
  const worlds = countsOf("world", options.world, { min: 2, max: 64 });
  const sizes = sizesOf(options.size);
  const rounds = countOf("rounds", options.rounds, { min: 1, max: 1000 });
  process.exitCode = await untilInterrupted(async (signal): Promise<ExitCode> => {
    const scratch = mkdtempSync(join(tmpdir(), "muster-bench-"));
    const removeScratch = (): void => rmSync(scratch, { recursive: true, force: true });
    // The second Ctrl-C ends the process in the middle.
    process.once("exit", removeScratch);
    try {
      const found = options.peers ? findPeers(scratch, names) : { peers: [], notes: [] };
      const machine = watchMachine();
      const [rows, notes]: [BenchRow[], string[]] = [[], [...found.notes]];
      const onProgress = (line: string): void => void process.stderr.write(`${line}\n`);
      const onRow = (row: BenchRow): void => {
        rows.push(row);
        onProgress(headText(row));
      };
      const onNote = (line: string): void => {
        notes.push(line);
        onProgress(line);
      };
      const { peers } = found;
      const failed = await measure({
        rounds,
        worlds,
        sizes,
        peers,
        compares: options.peers,
        scratch,
        signal,
        onRow,
        onNote,
        onProgress,
      }).then(
        () => (rows.length === 0 ? errors.BenchMemory({ reason: notes.at(-1) ?? "no size is left", count }) : null),
        (error: unknown) => error,
      );
      if (signal.aborted) throw failed;
      const failure = failed === null ? null : messageOf(failed);
      const report: BenchReport = { command, machine: machine(), rows, notes, failure };
      process.stdout.write(`${options.json ? reportLine(report) : reportText(report)}\n`);
      if (failure === null) return exitCodes.ok;
      process.stderr.write(`muster: ${failure}\n`);
      return exitCodes.failed;
    } finally {
      process.off("exit", removeScratch);
      removeScratch();
    }
  });
}

async function benchWeights({ worlds, sizes, scratch, onRow, onNote, ...common }: BenchContext): Promise<void> {
  let measured = false;
  for (const bytes of sizes)
    for (const world of worlds) {
      if (!fits({ world, bytes, peers: common.peers.length > 0 }, weightsBytes, onNote)) continue;
      for (const row of await benchSameHost({ ...common, socketDir: scratch, world, bytes })) onRow(row);
      measured = true;
    }
  if (measured) onRow(await benchManySections({ ...common, socketDir: scratch }));
}

/** Whether the machine has the memory for it now; says so when it has not. */
function fits(footprint: Footprint, bytesOf: (of: Footprint) => number, onNote: (line: string) => void): boolean {
  const why = tooLarge(footprint, bytesOf(footprint), process.availableMemory());
  if (why !== null) onNote(why);
  return why === null;
}

/** Measures the chain of hosts, 256 MiB when no size is asked for. */
async function benchHosts(options: WeightsOptions, count: string, usualSize: boolean): Promise<void> {
  const hosts = countOf("hosts", count, { min: 2, max: 64 });
  const linkMbit = countOf("link", options.link, { min: 1, max: 100_000 });
  const measure = async ({ sizes, scratch, onRow, onNote, ...common }: BenchContext): Promise<void> => {
    for (const bytes of sizes) {
      if (!fits({ world: hosts, bytes, peers: common.peers.length > 0 }, hostsBytes, onNote)) continue;
      for (const row of await benchSeveralHosts({ ...common, socketDir: scratch, hosts, linkMbit, bytes })) onRow(row);
    }
  };
  await runBench(
    { ...options, ...(usualSize ? { size: "256" } : {}) },
    { command: "weights", peers: ["gloo"], count: "hosts", measure },
  );
}

async function benchAllReduceAll({ worlds, sizes, scratch, onNote, ...common }: BenchContext): Promise<void> {
  const { reason } = glooCapabilities();
  if (common.compares && reason !== undefined) onNote(`gloo (in process) can not be compared with: ${reason}`);
  const gloo = common.compares && reason === undefined;
  for (const world of worlds) {
    const of = (bytes: number): Footprint => ({ world, bytes, peers: gloo || common.peers.length > 0 });
    const fitting = sizes.filter((bytes) => fits(of(bytes), allReduceBytes, onNote));
    if (fitting.length > 0) await benchAllReduce({ ...common, gloo, socketDir: scratch, world, sizes: fitting });
  }
}

/** Sizes in MiB as bytes: whole KiB. @throws MUSTER_ERR_OPTION_INVALID */
function sizesOf(text: string): number[] {
  return text.split(",").map((each) => {
    const bytes = Number(each) * 2 ** 20;
    if (each.trim() !== "" && bytes >= 1024 && bytes < 2 ** 32 && bytes % 1024 === 0) return bytes;
    const reason = "is not a size in MiB, of whole KiB below 4096 MiB";
    throw errors.OptionInvalid({ option: "size", value: each || '""', reason });
  });
}

function linkWithoutHosts(link: string): Error {
  const reason =
    "is the rate of links between hosts, and processes of one host have none; add --hosts, or leave it out";
  return errors.OptionInvalid({ option: "link", value: link || '""', reason });
}

/** Least and most of a number. */
interface Range {
  readonly min: number;
  readonly max: number;
}

/** Whole numbers, separated by commas. @throws MUSTER_ERR_OPTION_INVALID */
function countsOf(option: string, text: string, range: Range): number[] {
  return text.split(",").map((each) => countOf(option, each, range));
}

/** One whole number. @throws MUSTER_ERR_OPTION_INVALID */
function countOf(option: string, text: string, { min, max }: Range): number {
  const count = Number(text);
  if (text.trim() !== "" && Number.isSafeInteger(count) && count >= min && count <= max) return count;
  const reason = text.includes(",")
    ? `is a list; give one whole number from ${min} to ${max}`
    : `is not a whole number from ${min} to ${max}`;
  throw errors.OptionInvalid({ option, value: text || '""', reason });
}
