/** What processes of a replica say to each other goes through the engine's own channel, as text that is read with the same doubt on both sides. */
import { messageOf } from "@muster/base";
import { payloadBytesMax, z } from "@muster/protocol";

/**
 * Longest text that is read. The longest is a ticket: it says what a message said, and that has room for the addresses of all processes of all trainers of a
 * job; as JSON it is longer than as a message, and not twice as long.
 */
const charactersMax = 2 * payloadBytesMax;

/** Reads JSON of a form. @throws what `invalid` makes of the reason */
export function readText<T>(schema: z.ZodType<T>, text: string, invalid: (reason: string) => Error): T {
  if (typeof text !== "string") throw invalid(`it is a ${typeof text}, and no text`);
  if (text.length > charactersMax)
    throw invalid(`it has ${text.length} characters, and at most ${charactersMax} are read`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid(messageOf(error));
  }
  const read = schema.safeParse(value);
  if (!read.success) throw invalid(z.prettifyError(read.error));
  return read.data;
}

/** Writes what will be read so. @throws what `invalid` makes of the reason, where the reader would refuse it */
export function writeText(value: unknown, invalid: (reason: string) => Error): string {
  const text = JSON.stringify(value);
  if (text.length <= charactersMax) return text;
  throw invalid(
    `it has ${text.length} characters, and at most ${charactersMax} are read: lower init_replicas.policy or processes.policy`,
  );
}
