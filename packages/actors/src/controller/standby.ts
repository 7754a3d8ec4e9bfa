/**
 * A second controller that waits until the first is gone. It looks at the sign of life that the acting controller writes once a second: while
 * its revision changes, somebody acts. Being wrong costs a term and nothing else, because the journal has one writer.
 */
import type { Clock, Logger } from "@muster/base";
import { readPlain, statusKey } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { z } from "zod";
import { readAlive } from "./alive.ts";

/** How to wait. */
export interface StandbyOptions {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Silence after which nobody acts any more; a multiple of the second in which the sign is written. */
  readonly silentMs: number;
  readonly signal: AbortSignal;
}

/** `vacant`: nobody acts; `over`: the job has ended; `aborted`: asked to go. */
export type StandbyEnd = "vacant" | "over" | "aborted";

const lookEveryMs = 500;

/** Waits until nobody acts for the job. Time in which the broker is away proves nothing. */
export async function standBy(options: StandbyOptions): Promise<StandbyEnd> {
  const { transport, clock, logger, silentMs, signal } = options;
  let revision = -1;
  let seenMs = clock.now();
  while (!signal.aborted) {
    const look = await lookAt(transport, logger);
    if (look === null || look.revision !== revision) seenMs = clock.now();
    if (look?.isOver) return "over";
    revision = look?.revision ?? revision;
    if (clock.now() - seenMs >= silentMs) return "vacant";
    await pause(clock, signal);
  }
  return "aborted";
}

interface Look {
  readonly revision: number;
  readonly isOver: boolean;
}

const phaseSchema = z.looseObject({ phase: z.string() });

/** The present sign of life; `null` when it can not be seen, revision 0 when there is none. */
async function lookAt(transport: Transport, logger: Logger): Promise<Look | null> {
  try {
    return (await readAlive(transport.state())) ?? (await lookAtStatus(transport));
  } catch (error) {
    logger.debug({ error }, "the sign of life can not be seen");
    return null;
  }
}

/** Controllers that write no sign of life write a status as often; of any version, so that only its end is read. */
async function lookAtStatus(transport: Transport): Promise<Look> {
  const entry = await transport.state().get(statusKey);
  if (!entry) return { revision: 0, isOver: false };
  return { revision: entry.revision, isOver: phaseSchema.parse(readPlain(entry.value)).phase === "stopped" };
}

function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(lookEveryMs, done);
    signal.addEventListener("abort", done);
  });
}
