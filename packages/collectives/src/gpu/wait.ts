/** Running a native GPU call within a deadline. */
import { checkTimeout } from "../check.ts";
import { errorOf, errors } from "../errors.ts";
import { cancellable, type NativeOutcome } from "../native.ts";
import type { NativeWait } from "../native-gpu.ts";

/** How long a GPU operation may take, and who may end it. */
export interface GpuWait {
  /** Milliseconds, > 0. A call into the driver or NCCL that does not come back costs a second more; its thread is left behind. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** How long a copy or a collective may take, and behind what it comes. */
export interface GpuStreamWait extends GpuWait {
  /**
   * Address of a CUstream of this process's primary context, as engines tell it: what is called comes behind what is queued there. The stream lives until
   * that has ended, also when it was given up. Behind nothing when it is left out.
   */
  readonly stream?: bigint;
}

/** What a call is about, for its errors. */
interface GpuCallName {
  readonly kind: "gpu" | "shelf" | "take";
  /** The operation in words. */
  readonly what: string;
  /** The version that it concerns, in words. */
  readonly id?: string;
}

/** The value of a native call, or its error. `name` is the operation in words, and what else its errors need. */
export async function gpuCall<T>(
  name: string | GpuCallName,
  wait: GpuWait,
  run: (native: NativeWait) => Promise<NativeOutcome<T>>,
): Promise<T> {
  const { kind, ...context } = typeof name === "string" ? ({ kind: "gpu", what: name } as const) : name;
  const timeoutMs = checkTimeout("deadlineMs", wait.deadlineMs);
  const outcome = await cancellable(wait.signal, (cancellation) => run({ timeoutMs, cancellation }));
  if (!outcome.ok) throw errorOf(kind, outcome, { ...context, timeoutMs });
  return outcome.value;
}

/** The stream in the addon's terms. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for what is no address */
export function streamOf({ stream }: GpuStreamWait): bigint | null {
  if (stream === undefined) return null;
  if (stream > 0n && stream < 2n ** 64n) return stream;
  throw errors.NativeOptionInvalid({
    field: "stream",
    value: stream.toString(),
    fix: "give the address of a CUstream",
  });
}
