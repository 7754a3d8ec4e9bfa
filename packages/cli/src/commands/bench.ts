/** `muster bench`: how fast this machine moves weights, beside its own limit and beside other programs that are installed. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ExitCode, exitCodes } from "@muster/runtime";
import { type Command, Option } from "commander";
import { benchAllReduce } from "../bench/allreduce/same-host.ts";
import { watchMachine } from "../bench/machine.ts";
import { findPeers, type Peer } from "../bench/peers.ts";
import { type BenchReport, type BenchRow, headText, reportText } from "../bench/report.ts";
import { benchSameHost } from "../bench/weights/same-host.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";

/** What a measurement gets from the command line. */
interface BenchContext {
  readonly rounds: number;
  readonly worlds: readonly number[];
  /** Bytes. */
  readonly sizes: readonly number[];
  readonly peers: readonly Peer[];
  /** Folder for sockets and compiled programs, removed at the end. */
  readonly scratch: string;
  readonly signal: AbortSignal;
  /** Takes each row as soon as it is there. */
  readonly onRow: (row: BenchRow) => void;
}

interface Options {
  readonly world: string;
  readonly size: string;
  readonly rounds: string;
  readonly peers: boolean;
  readonly json?: boolean;
}

/** Adds the command and its measurements. */
export function addBenchCommands(program: Command): void {
  const bench = program.command("bench").description("measure how fast this machine moves weights and gradients");
  withCommon(
    bench.command("weights").description("measure one version on its way from a trainer to all samplers"),
  ).action((options: Options) => runBench("weights", options, benchWeights));
  withCommon(
    bench.command("allreduce").description("measure the sum of gradients over all trainers of a host"),
    "0.0625,1,16,64,256",
  ).action((options: Options) => runBench("allreduce", options, benchAllReduceAll));
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

/** Runs a measurement with progress on standard error, and ends with its report. Ctrl-C ends it and everything that it started. */
async function runBench(
  command: string,
  options: Options,
  measure: (context: BenchContext) => Promise<readonly BenchRow[]>,
): Promise<void> {
  const worlds = countsOf("world", options.world, { min: 2, max: 64 });
  const sizes = sizesOf(options.size);
  const [rounds = 1] = countsOf("rounds", options.rounds, { min: 1, max: 1000 });
  process.exitCode = await untilInterrupted(async (signal): Promise<ExitCode> => {
    const scratch = await mkdtemp(join(tmpdir(), "muster-bench-"));
    try {
      const { peers, notes } = options.peers ? findPeers(scratch) : { peers: [], notes: [] };
      const machine = watchMachine();
      const onRow = (row: BenchRow): void => void process.stderr.write(`${headText(row)}\n`);
      const rows = await measure({ rounds, worlds, sizes, peers, scratch, signal, onRow });
      const report: BenchReport = { command, machine: machine(), rows, notes };
      process.stdout.write(`${options.json ? JSON.stringify(report) : reportText(report)}\n`);
      return exitCodes.ok;
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  });
}

async function benchWeights({ worlds, sizes, scratch, onRow, ...common }: BenchContext): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const bytes of sizes)
    for (const world of worlds)
      for (const row of await benchSameHost({ ...common, socketDir: scratch, world, bytes })) {
        rows.push(row);
        onRow(row);
      }
  return rows;
}

async function benchAllReduceAll({ worlds, sizes, scratch, onRow, ...common }: BenchContext): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const world of worlds)
    for (const row of await benchAllReduce({ ...common, socketDir: scratch, world, sizes, onRow })) rows.push(row);
  return rows;
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

/** Whole numbers, separated by commas. @throws MUSTER_ERR_OPTION_INVALID */
function countsOf(
  option: string,
  text: string,
  { min, max }: { readonly min: number; readonly max: number },
): number[] {
  return text.split(",").map((each) => {
    const count = Number(each);
    if (each.trim() !== "" && Number.isSafeInteger(count) && count >= min && count <= max) return count;
    throw errors.OptionInvalid({ option, value: each || '""', reason: `is not a whole number from ${min} to ${max}` });
  });
}
