/** Running a native GPU call within a deadline. */
import { checkTimeout } from "../check.ts";
import { errorOf } from "../errors.ts";
import { cancellable, type NativeOutcome } from "../native.ts";
import type { NativeWait } from "../native-gpu.ts";

/** How long a GPU operation may take, and who may end it. */
export interface GpuWait {
  /** Milliseconds, > 0. A call into the driver or NCCL that does not come back costs a second more; its thread is left behind. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** How long a copy may take, and behind what it comes. */
export interface GpuCopyWait extends GpuWait {
  /**
   * Address of a CUstream of this process's primary context, as engines tell it: the copy comes behind what is queued there. It lives until the copy has
   * ended, also one that was given up. The device's own stream when it is left out.
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
