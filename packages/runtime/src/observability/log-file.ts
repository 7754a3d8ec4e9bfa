/** A log file of bounded size: when it is full it becomes `<path>.1`, in place of the one before, and a new one begins. */
import { renameSync, statSync } from "node:fs";
import { type DestinationStream, destination } from "pino";

/** Bytes of the present file and of the one before, each. */
const fileBytesMax = 32 * 1024 ** 2;

/** Lines that a full disk does not take wait in memory, up to this; what is more is lost. */
const heldBytesMax = 1024 ** 2;

/** Opens a file for lines; they are written before the call returns. What can not be written ends nobody: `onFailed` hears of it. */
export function openLogFile(
  path: string,
  { bytesMax = fileBytesMax, onFailed = () => {} }: { bytesMax?: number; onFailed?: (error: Error) => void } = {},
): DestinationStream {
  const file = destination({ dest: path, sync: true, mkdir: true, mode: 0o600, maxLength: heldBytesMax });
  file.on("error", onFailed);
  let bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  return {
    write(line) {
      const added = Buffer.byteLength(line);
      if (bytes > 0 && bytes + added > bytesMax) {
        renameSync(path, `${path}.1`);
        file.reopen(path);
        bytes = 0;
      }
      bytes += added;
      file.write(line);
    },
  };
}
