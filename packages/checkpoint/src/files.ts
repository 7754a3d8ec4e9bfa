/**
 * The few file operations that a checkpoint needs, as an interface: a test can put a disk behind it that crashes, fills up or lies
 * at every single call. Operations fail with the operating system's error, whose `code` is `ENOENT`, `ENOSPC` and so on.
 */

/** What a path is, itself: a link is never followed. */
export interface PathStat {
  readonly kind: "file" | "directory" | "other";
  readonly sizeBytes: number;
  /** Number of names of the file; more than one means that somebody outside can change it. */
  readonly links: number;
  /** Wall time of the last change of content, in milliseconds since 1970. */
  readonly modifiedMs: number;
  /** Changes whenever identity, size or a timestamp does; equal signatures mean that nothing was written through the file system. */
  readonly signature: string;
}

/** A file being written. */
export interface WritableFile {
  /** Writes all of `bytes` from `positionBytes` on; several calls may be under way, each for bytes of its own. The buffer stays the caller's. */
  write(bytes: Uint8Array, positionBytes: number): Promise<void>;
  /**
   * Makes durable what was written before the call; later bytes may be written meanwhile. A failed call says nothing about what reached the disk: it
   * must not be tried again as if clean.
   */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** A file opened for reading; it stays readable when its name is removed. */
export interface ReadableFile {
  readonly stat: PathStat;
  /** Fills `target` from `positionBytes`. @returns Bytes read; 0 at the end of the file. */
  read(target: Uint8Array, positionBytes: number): Promise<number>;
  close(): Promise<void>;
}

/** File operations of a checkpoint store. Renames within one directory are atomic; nothing is durable before its sync. */
export interface CheckpointFs {
  /** Makes the root with its parents, durably and private (0700), when absent. @returns Its path without links. */
  prepareRoot(path: string): Promise<string>;
  /** Makes one private directory (0700). Fails with `EEXIST` when the name is taken. */
  makeDirectory(path: string): Promise<void>;
  /** Makes one private file (0600). Fails with `EEXIST` when the name is taken, also by a link. */
  create(path: string): Promise<WritableFile>;
  /** Opens a file for reading without following a link at its end and without waiting on a pipe. */
  open(path: string): Promise<ReadableFile>;
  /** Looks at a path. @returns `null` when nothing is there. */
  stat(path: string): Promise<PathStat | null>;
  /** Names in a directory, in any order. */
  list(path: string): Promise<readonly string[]>;
  /** Renames within one directory, atomically, replacing a file of that name. */
  rename(from: string, to: string): Promise<void>;
  /** Makes the names in a directory durable. */
  syncDirectory(path: string): Promise<void>;
  /** Bytes that this process could still write to the disk of a folder. */
  freeBytes(path: string): Promise<number>;
  removeFile(path: string): Promise<void>;
  /** Removes an empty directory. */
  removeDirectory(path: string): Promise<void>;
}

/** The operating system's code of an error, e.g. `ENOENT`; empty for any other error. */
export function systemCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";
}

/** A file ended before what was to be read of it. */
export class TooShort extends Error {
  override readonly name = "TooShort";
}

/** Fills `target` from `positionBytes` on. @throws {@link TooShort} */
export async function fill(file: ReadableFile, target: Uint8Array, positionBytes: number): Promise<void> {
  for (let done = 0; done < target.length; ) {
    const read = await file.read(target.subarray(done), positionBytes + done);
    if (read === 0) throw new TooShort("a file became shorter while it was read");
    done += read;
  }
}

/** Closes all files, also when one of them fails. @throws The error of the first that failed. */
export async function closeAll(files: readonly Pick<ReadableFile, "close">[]): Promise<void> {
  const faults: unknown[] = [];
  for (const file of files) await file.close().catch((error: unknown) => faults.push(error));
  if (faults.length > 0) throw faults[0];
}
