/** Where a measurement ran, and how fast that machine copies. */
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os";
import { type FanOutOptions, type FanOutSample, measureAddUp, measureCopies, measureFanOut } from "@muster/collectives";
import type { BenchMachine } from "./report.ts";

/** Starts watching the machine. @returns What to call at the end. */
export function watchMachine(): () => BenchMachine {
  const load = (): number => loadavg()[0] ?? 0;
  const before = load();
  return () => ({
    model: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    kernel: release(),
    load: [before, load()],
  });
}

/** Most threads that the limit is measured with: a memory bus has enough of them. */
const threadsMax = 8;
/** Largest sample; larger sizes are scaled up from it. */
const sampleBytesMax = 256 * 2 ** 20;
const samples = 5;

/**
 * The shortest time in which this host can copy `bytes` to so many receivers: the best of five copies by pinned threads with nothing in the
 * way. Samples in which other processes took the cores are left out, unless that is all of them.
 */
export async function fanOutLimit(bytes: number, receivers: number): Promise<number> {
  return await limitOf(bytes, (options) => measureFanOut({ ...options, targets: receivers }));
}

/** The same when each receiver's copy reads the bytes anew, measured in the same way: receivers that copy for themselves cannot be faster. */
export async function copiesLimit(bytes: number, receivers: number): Promise<number> {
  return await limitOf(bytes, (options) => measureCopies({ ...options, targets: receivers }));
}

/** The shortest time in which this host can add up `bytes` of so many sources, measured in the same way. */
export async function addUpLimit(bytes: number, sources: number): Promise<number> {
  return await limitOf(bytes, (options) => measureAddUp({ ...options, sources }));
}

async function limitOf(
  bytes: number,
  measure: (options: Omit<FanOutOptions, "targets">) => Promise<readonly FanOutSample[]>,
): Promise<number> {
  const threads = Math.min(availableParallelism(), threadsMax);
  const sample = Math.min(bytes, sampleBytesMax);
  const all = await measure({ bytes: sample, threads, samples });
  const undisturbed = all.filter(({ seconds, cpuSeconds }) => cpuSeconds > 0.8 * threads * seconds);
  const counted = undisturbed.length > 0 ? undisturbed : all;
  return Math.min(...counted.map(({ seconds }) => seconds)) * (bytes / sample);
}
