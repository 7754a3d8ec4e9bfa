/** The memory of a region, as this side reads and writes it: by calls, because bytes that were read can not change any more. */
import { rmSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { errors } from "../errors.ts";

/** Memory of one region. */
export interface RegionMemory {
  /** Where the worker opens it, and maps it, until it is hidden. */
  readonly path: string;
  /** Copies bytes into it, which has room for them. */
  write(from: Uint8Array, at: number): Promise<void>;
  /** Copies bytes out of it. @throws MUSTER_ERR_WORKER_PROTOCOL when the worker cut it */
  read(into: Uint8Array, at: number): Promise<void>;
  /** Takes its name away, so that the memory ends with those who have it. */
  hide(): void;
  /** Gives it back on this side. */
  close(): Promise<void>;
}

/** Opens memory that nobody can cut, of 1 byte or more. */
export type OpenSharedMemory = (name: string, bytes: number) => RegionMemory;

/** Most bytes of one call: those of all threads add up to the bandwidth of memory, and a large copy does not hold up a small one. */
const pieceBytes = 8 * 2 ** 20;
const lanes = 2;

/** A file of a folder in `/dev/shm`. It is not mapped here: a mapping ends whoever reads where the worker has cut the file. */
export class FileMemory implements RegionMemory {
  readonly path: string;
  readonly #name: string;
  readonly #bytes: number;
  readonly #handle: FileHandle;

  private constructor(path: string, name: string, bytes: number, handle: FileHandle) {
    this.path = path;
    this.#name = name;
    this.#bytes = bytes;
    this.#handle = handle;
  }

  static async open(folder: string, name: string, bytes: number): Promise<FileMemory> {
    const path = join(folder, name);
    const handle = await open(path, "wx+", 0o600);
    await handle.truncate(bytes);
    return new FileMemory(path, name, bytes, handle);
  }

  async write(from: Uint8Array, at: number): Promise<void> {
    await inPieces(from, async (piece, offset) => {
      let done = 0;
      while (done < piece.length)
        done += (await this.#handle.write(piece, done, piece.length - done, at + offset + done)).bytesWritten;
    });
  }

  async read(into: Uint8Array, at: number): Promise<void> {
    await inPieces(into, async (piece, offset) => {
      let done = 0;
      while (done < piece.length) {
        const { bytesRead } = await this.#handle.read(piece, done, piece.length - done, at + offset + done);
        if (bytesRead === 0) {
          const left = `it has at most ${at + offset + done} of ${this.#bytes} bytes`;
          throw errors.WorkerProtocol({ reason: `it cut the region ${this.#name} short: ${left}` });
        }
        done += bytesRead;
      }
    });
  }

  hide(): void {
    rmSync(this.path, { force: true });
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

async function inPieces(bytes: Uint8Array, run: (piece: Uint8Array, from: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < bytes.byteLength) {
      const from = next;
      next = Math.min(bytes.byteLength, from + pieceBytes);
      await run(bytes.subarray(from, next), from);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}
