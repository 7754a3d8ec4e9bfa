/**
 * Memory that Muster and a worker share: files of a folder of their own in /dev/shm. The worker maps them; Muster reads and writes them by calls,
 * because a mapping ends whoever reads where the other side has cut the file, and because bytes that were read can not change any more.
 */
import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errors } from "../errors.ts";
import { arrayTypes, type ElementType, type Place } from "./messages.ts";

/** A region as a worker is told of it. */
interface RegionPlace {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
}

/** Most bytes of one call: those of all threads add up to the bandwidth of memory, and a large copy does not hold up a small one. */
const pieceBytes = 8 * 2 ** 20;
const lanes = 2;
const alignment = 8;

/** Regions of one worker, by name. */
export class Regions {
  readonly #folder: string;
  readonly #files = new Map<string, { readonly handle: FileHandle; readonly place: RegionPlace }>();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Makes regions of these sizes.
   *
   * @throws MUSTER_ERR_WORKER_MEMORY when the shared memory of this host has less.
   */
  static async open(sizes: Readonly<Record<string, number>>): Promise<Regions> {
    const root = sharedFolder();
    const wanted = Object.values(sizes).reduce((sum, bytes) => sum + bytes, 0);
    const { bavail, bsize } = statfsSync(root);
    if (wanted > bavail * bsize)
      throw errors.WorkerMemory({ folder: root, wantedBytes: wanted, freeBytes: bavail * bsize });
    const regions = new Regions(mkdtempSync(join(root, "muster-worker-")));
    try {
      for (const [name, bytes] of Object.entries(sizes)) {
        const path = join(regions.#folder, name);
        const handle = await open(path, "wx+", 0o600);
        regions.#files.set(name, { handle, place: { name, path, bytes } });
        await handle.truncate(bytes);
      }
      return regions;
    } catch (error) {
      await regions.close();
      throw error;
    }
  }

  places(): readonly RegionPlace[] {
    return [...this.#files.values()].map(({ place }) => place);
  }

  /** Takes the names away, so that the memory ends with those who have it. */
  hide(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Copies bytes into a region, from its beginning. */
  async write(name: string, bytes: Uint8Array, at = 0): Promise<void> {
    const { handle } = this.#fileOf(name, at + bytes.byteLength);
    await inPieces(bytes, async (piece, from) => {
      let done = 0;
      while (done < piece.length)
        done += (await handle.write(piece, done, piece.length - done, at + from + done)).bytesWritten;
    });
  }

  /** Copies bytes out of a region. @throws MUSTER_ERR_WORKER_PROTOCOL for a region that the worker cut. */
  async read(name: string, into: Uint8Array, at = 0): Promise<void> {
    const { handle, place } = this.#fileOf(name, at + into.byteLength);
    const { bytes } = place;
    await inPieces(into, async (piece, from) => {
      let done = 0;
      while (done < piece.length) {
        const { bytesRead } = await handle.read(piece, done, piece.length - done, at + from + done);
        if (bytesRead === 0) {
          const left = `it has at most ${at + from + done} of ${bytes} bytes`;
          throw errors.WorkerProtocol({ reason: `it cut the region ${name} short: ${left}` });
        }
        done += bytesRead;
      }
    });
  }

  /** Writes arrays one behind the other into a region. @returns Where each lies. @throws MUSTER_ERR_WORKER_ARENA when there is no room. */
  async writeArrays<N extends string>(
    region: string,
    arrays: Readonly<Record<N, Int32Array | Float32Array | Float64Array | Uint8Array>>,
  ): Promise<Record<N, Place>> {
    const places: Partial<Record<N, Place>> = {};
    let end = 0;
    const entries = Object.entries(arrays) as [N, Int32Array | Float32Array | Float64Array | Uint8Array][];
    for (const [name, array] of entries) {
      places[name] = { dtype: elementOf(array), offsetBytes: end, length: array.length };
      end = Math.ceil((end + array.byteLength) / alignment) * alignment;
    }
    const room = this.#files.get(region)?.place.bytes ?? 0;
    if (end > room) throw errors.WorkerArena({ region, wantedBytes: end, bytes: room });
    for (const [name, array] of entries)
      await this.write(
        region,
        new Uint8Array(array.buffer, array.byteOffset, array.byteLength),
        places[name]!.offsetBytes,
      );
    return places as Record<N, Place>;
  }

  /** Reads an array that a worker says lies there. @throws MUSTER_ERR_WORKER_PROTOCOL for a place outside of the region. */
  async readArray<E extends ElementType>(
    region: string,
    place: Place,
    wanted: { readonly dtype: E; readonly what: string; readonly length?: number },
  ): Promise<InstanceType<(typeof arrayTypes)[E]>> {
    const { dtype, what, length = place.length } = wanted;
    const type = arrayTypes[dtype];
    const room = this.#files.get(region)?.place.bytes ?? 0;
    const end = place.offsetBytes + place.length * type.BYTES_PER_ELEMENT;
    if (place.dtype !== dtype || place.length !== length || end > room) {
      const found = `${place.dtype}[${place.length}] at byte ${place.offsetBytes}`;
      const reason = `its ${what} is ${found} of a region of ${room} bytes, and should be ${dtype}[${length}] within it`;
      throw errors.WorkerProtocol({ reason });
    }
    const array = new type(place.length);
    await this.read(region, new Uint8Array(array.buffer), place.offsetBytes);
    return array as InstanceType<(typeof arrayTypes)[E]>;
  }

  async close(): Promise<void> {
    this.hide();
    for (const { handle } of this.#files.values()) await handle.close();
    this.#files.clear();
  }

  #fileOf(name: string, end: number): { readonly handle: FileHandle; readonly place: RegionPlace } {
    const file = this.#files.get(name);
    if (!file || end > file.place.bytes)
      throw errors.WorkerArena({ region: name, wantedBytes: end, bytes: file?.place.bytes ?? 0 });
    return file;
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

function elementOf(array: Int32Array | Float32Array | Float64Array | Uint8Array): ElementType {
  if (array instanceof Int32Array) return "i32";
  if (array instanceof Float32Array) return "f32";
  return array instanceof Float64Array ? "f64" : "u8";
}

function sharedFolder(): string {
  try {
    statfsSync("/dev/shm");
    return "/dev/shm";
  } catch {
    // Another system than Linux: the copies are slower there, and nothing else is different.
    return tmpdir();
  }
}
