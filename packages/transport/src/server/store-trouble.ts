/**
 * Whether a server's store still takes what it is given. After one write that failed, nats-server refuses whatever a stream is given until it starts
 * anew, also when there is room again ("Critical write error", seen with 2.15.1); others turn JetStream off ("out of File resources", nats-io/nats-server
 * issue 7654).
 */
import { open } from "node:fs/promises";

const tailBytes = 64 * 1024;
const trouble =
  /critical write error|out of \w+ resources|no space left on device|disk quota exceeded|input\/output error/i;

/** The last line of a server's log that says so, without its date; `null` when none does. @throws The error of reading, but for a log that is not there. */
export async function storeTroubleIn(log: string): Promise<string | null> {
  const lines = (await tailOf(log)).split("\n");
  const line = lines.findLast((each) => each.includes("[ERR]") && trouble.test(each));
  return line === undefined ? null : line.slice(line.lastIndexOf("[ERR]") + "[ERR]".length).trim();
}

async function tailOf(path: string): Promise<string> {
  const file = await open(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (!file) return "";
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - tailBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}
