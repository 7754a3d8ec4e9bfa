/** Says of full streams that they are full, and that they take messages again: not once a try, but once a while. */
import { type Clock, hasCode, type Logger, messageOf } from "@muster/base";

/** Time between two words on a stream that stays full. */
const sayEveryMs = 60_000;

/** What is known of full streams by those who send to them. */
export interface BackPressure {
  /** A try failed. @returns The stream that has no room, or `null` when the cause is another one. */
  refused(lane: string, error: unknown): string | null;
  /** A message of this lane was stored. */
  stored(lane: string): void;
}

/** Watches the tries of one outbox. */
export function watchBackPressure(clock: Clock, logger: Logger): BackPressure {
  /** Streams that are full, by the lane that waits for room. */
  const waiting = new Map<string, { readonly stream: string; readonly sinceMs: number }>();
  const saidMs = new Map<string, number>();
  return {
    refused(lane, error) {
      if (!hasCode(error, "MUSTER_ERR_STREAM_FULL")) return null;
      const stream = String(error.params.stream);
      const nowMs = clock.now();
      const { sinceMs } = waiting.get(lane) ?? { sinceMs: nowMs };
      waiting.set(lane, { stream, sinceMs });
      const lastMs = saidMs.get(stream);
      if (lastMs !== undefined && nowMs - lastMs < sayEveryMs) return stream;
      saidMs.set(stream, nowMs);
      logger.warn({ stream, waitedMs: nowMs - sinceMs, reason: messageOf(error) }, "a full stream holds messages back");
      return stream;
    },
    stored(lane) {
      const waited = waiting.get(lane);
      if (!waited) return;
      waiting.delete(lane);
      const { stream, sinceMs } = waited;
      if ([...waiting.values()].some((other) => other.stream === stream)) return;
      saidMs.delete(stream);
      logger.info({ stream, waitedMs: clock.now() - sinceMs }, "the stream takes messages again");
    },
  };
}
