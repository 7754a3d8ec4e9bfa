/** Memory that Muster and a worker share, by name: sealed where the data plane gives it, and else files of a folder of their own in /dev/shm. */
import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { freemem, tmpdir } from "node:os";
import { join } from "node:path";
import { errors } from "../errors.ts";
import { arrayTypes, type ElementType, type Place } from "./messages.ts";
import { FileMemory, type OpenSharedMemory, type RegionMemory } from "./region-memory.ts";

/** A region as a worker is told of it. */
interface RegionPlace {
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
}

const alignment = 8;

interface Region {
  readonly bytes: number;
  readonly memory: RegionMemory;
}

/** Regions of one worker, by name. */
export class Regions {
  readonly #folder: string | null;
  readonly #regions = new Map<string, Region>();

  private constructor(folder: string | null) {
    this.#folder = folder;
  }

  /**
   * Makes regions of these sizes.
   *
   * @param openShared - Opens their memory; without it they are files.
   * @throws MUSTER_ERR_WORKER_MEMORY when this host has less.
   */
  static async open(sizes: Readonly<Record<string, number>>, openShared?: OpenSharedMemory): Promise<Regions> {
    const root = openShared ? null : sharedFolder();
    const wantedBytes = Object.values(sizes).reduce((sum, bytes) => sum + bytes, 0);
    const freeBytes = root === null ? freemem() : freeBytesOf(root);
    if (wantedBytes > freeBytes)
      throw errors.WorkerMemory({ folder: root ?? "the memory of this host", wantedBytes, freeBytes });
    const regions = new Regions(root === null ? null : mkdtempSync(join(root, "muster-worker-")));
    try {
      for (const [name, bytes] of Object.entries(sizes)) {
        const memory = openShared
          ? openShared(name, Math.max(bytes, 1))
          : await FileMemory.open(regions.#folder!, name, bytes);
        regions.#regions.set(name, { bytes, memory });
      }
      return regions;
    } catch (error) {
      await regions.close();
      throw error;
    }
  }

  places(): readonly RegionPlace[] {
    return [...this.#regions].map(([name, { bytes, memory }]) => ({ name, path: memory.path, bytes }));
  }

  /** Takes the names away, so that the memory ends with those who have it. */
  hide(): void {
    for (const { memory } of this.#regions.values()) memory.hide();
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Copies bytes into a region, from `at` on. */
  async write(name: string, bytes: Uint8Array, at = 0): Promise<void> {
    await this.#regionOf(name, at + bytes.byteLength).memory.write(bytes, at);
  }

  /** Copies bytes out of a region. @throws MUSTER_ERR_WORKER_PROTOCOL for a region that the worker cut. */
  async read(name: string, into: Uint8Array, at = 0): Promise<void> {
    await this.#regionOf(name, at + into.byteLength).memory.read(into, at);
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
    const room = this.#regions.get(region)?.bytes ?? 0;
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
    const room = this.#regions.get(region)?.bytes ?? 0;
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
    for (const { memory } of this.#regions.values()) await memory.close();
    this.#regions.clear();
  }

  #regionOf(name: string, end: number): Region {
    const region = this.#regions.get(name);
    if (!region || end > region.bytes)
      throw errors.WorkerArena({ region: name, wantedBytes: end, bytes: region?.bytes ?? 0 });
    return region;
  }
}

function elementOf(array: Int32Array | Float32Array | Float64Array | Uint8Array): ElementType {
  if (array instanceof Int32Array) return "i32";
  if (array instanceof Float32Array) return "f32";
  return array instanceof Float64Array ? "f64" : "u8";
}

function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
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
