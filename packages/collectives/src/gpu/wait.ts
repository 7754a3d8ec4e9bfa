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

/** The value of a native call, or its error. `what` is the operation in words. */
export async function gpuCall<T>(
  what: string,
  wait: GpuWait,
  run: (native: NativeWait) => Promise<NativeOutcome<T>>,
): Promise<T> {
  const timeoutMs = checkTimeout("deadlineMs", wait.deadlineMs);
  const outcome = await cancellable(wait.signal, (cancellation) => run({ timeoutMs, cancellation }));
  if (!outcome.ok) throw errorOf("gpu", outcome, { what, timeoutMs });
  return outcome.value;
}
