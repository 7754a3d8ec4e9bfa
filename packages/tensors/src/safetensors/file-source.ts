/** Bytes that are read by ranges, so that nothing needs memory of a file's size. */
import { open } from "node:fs/promises";

/** A file that stays open until it is closed. */
export interface FileSource {
  readonly sizeBytes: number;
  /** Fills `target` from `positionBytes`, maybe not all of it. @returns Bytes read; 0 at the end. */
  read(target: Uint8Array, positionBytes: number): Promise<number>;
  close(): Promise<void>;
}

/** Opens a file for reading. @throws The operating system's error. */
export async function openFileSource(path: string): Promise<FileSource> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    return {
      sizeBytes: size,
      read: async (target, positionBytes) => (await file.read(target, 0, target.length, positionBytes)).bytesRead,
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Fills all of `target` from `positionBytes`. @returns Bytes that were there: less than asked for at the end. */
export async function fillFrom(source: FileSource, target: Uint8Array, positionBytes: number): Promise<number> {
  let done = 0;
  while (done < target.length) {
    const read = await source.read(target.subarray(done), positionBytes + done);
    if (read === 0) break;
    done += read;
  }
  return done;
}
