import type { Clock } from "./env.ts";
import { defineErrors } from "./errors.ts";

const errors = defineErrors("MUSTER_ERR", {
  DeadlineExpired: { message: "{what} did not end within {timeoutMs} ms", retryable: true },
});

/**
 * Gives a promise a deadline. The work itself is told through `signal`; it must end on it.
 *
 * @throws MUSTER_ERR_DEADLINE_EXPIRED naming `what`.
 */
export async function withDeadline<T>(
  work: (signal: AbortSignal) => Promise<T>,
  options: { readonly what: string; readonly timeoutMs: number; readonly clock: Clock; readonly signal?: AbortSignal },
): Promise<T> {
  const controller = new AbortController();
  const forward = (): void => controller.abort(options.signal?.reason);
  if (options.signal?.aborted) forward();
  options.signal?.addEventListener("abort", forward, { once: true });
  let cancel: () => void = () => {};
  const expiry = new Promise<never>((_, reject) => {
    cancel = options.clock.after(options.timeoutMs, () => {
      const error = errors.DeadlineExpired({ what: options.what, timeoutMs: options.timeoutMs });
      controller.abort(error);
      reject(error);
    });
  });
  try {
    return await Promise.race([work(controller.signal), expiry]);
  } finally {
    cancel();
    options.signal?.removeEventListener("abort", forward);
  }
}
