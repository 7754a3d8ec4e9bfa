import { messageOf } from "@muster/base";

const pollMs = 10;

/** What a wait is for, so that its failure explains itself. */
export interface WaitOptions {
  /** What should come true, e.g. `three members alive`. */
  readonly what: string;
  /** Default 5 s. */
  readonly timeoutMs?: number;
  /** What was seen instead; printed at the deadline. */
  readonly detail?: () => unknown;
}

/**
 * Waits until `condition` gives something other than `false`, `null` or `undefined`. A condition that throws is tried again.
 *
 * @returns What it gave.
 * @throws Error naming `what`, and `detail` or the last error, at the deadline.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: WaitOptions,
): Promise<Exclude<T, false | null | undefined>> {
  const timeoutMs = options.timeoutMs ?? 5_000;
  const deadline = performance.now() + timeoutMs;
  let seen = "";
  for (;;) {
    try {
      const value = await condition();
      if (value !== false && value !== null && value !== undefined) {
        return value as Exclude<T, false | null | undefined>;
      }
    } catch (error) {
      seen = `; last error: ${messageOf(error)}`;
    }
    if (performance.now() >= deadline) {
      const detail = options.detail ? `; seen: ${JSON.stringify(options.detail())}` : seen;
      throw new Error(`expected ${options.what} within ${timeoutMs} ms${detail}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}
