/** What the host itself can do: the limits that a delivery of weights and a sum of gradients are measured against. */
import { checkWhole } from "./check.ts";
import { errorOf } from "./errors.ts";
import { type NativeOutcome, native } from "./native.ts";

/** What to copy, and how. */
export interface FanOutOptions {
  /** Bytes of the source, and of each target. */
  readonly bytes: number;
  /** Receivers, 1 … 64. */
  readonly targets: number;
  /** Threads, each pinned to a core, 1 … 64. */
  readonly threads: number;
  /** How often, 1 … 1000. */
  readonly samples: number;
}

/** One copy to all targets. */
export interface FanOutSample {
  readonly seconds: number;
  /** Of all threads together. */
  readonly cpuSeconds: number;
}

/**
 * Copies the same bytes to all targets with nothing in the way: threads of one process, pinned, with stores that bypass the caches, into
 * memory that is warm. Takes `bytes × (targets + 1)` of memory while it runs.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_NATIVE_FAILED
 */
export async function measureFanOut(options: FanOutOptions): Promise<readonly FanOutSample[]> {
  return await measure("targets", options, (checked) => native().measureFanOut(checked));
}

/**
 * Copies the same bytes to one target after another, in the same way as {@link measureFanOut}, which reads them once for all targets. This
 * reads them once for each: the most that receivers can reach that copy for themselves.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_NATIVE_FAILED
 */
export async function measureCopies(options: FanOutOptions): Promise<readonly FanOutSample[]> {
  return await measure("targets", options, (checked) => native().measureCopies(checked));
}

/** What to add up, and how; as {@link FanOutOptions}, the other way round. */
export interface AddUpOptions extends Omit<FanOutOptions, "targets"> {
  /** Senders, 1 … 64. */
  readonly sources: number;
}

/**
 * Adds up float32 from all sources into one target with nothing in the way: threads of one process, pinned, over memory that is warm. Takes
 * `bytes × (sources + 1)` of memory while it runs.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_NATIVE_FAILED
 */
export async function measureAddUp({ sources, ...options }: AddUpOptions): Promise<readonly FanOutSample[]> {
  return await measure("sources", { ...options, targets: sources }, (checked) => native().measureAddUp(checked));
}

async function measure(
  field: string,
  options: FanOutOptions,
  run: (options: FanOutOptions) => Promise<NativeOutcome<readonly FanOutSample[]>>,
): Promise<readonly FanOutSample[]> {
  checkWhole("bytes", options.bytes, { min: 1, max: 2 ** 40 });
  checkWhole(field, options.targets, { min: 1, max: 64 });
  checkWhole("threads", options.threads, { min: 1, max: 64 });
  checkWhole("samples", options.samples, { min: 1, max: 1000 });
  const measured = await run(options);
  if (!measured.ok) throw errorOf("publish", measured, {});
  return measured.value;
}
