/** A process of `muster bench weights`: publishes versions, or pulls them and passes them on. */
import {
  type MapOptions,
  mapVersion,
  openVersionStore,
  pullVersion,
  type VersionStore,
  type VersionStoreOptions,
} from "@muster/collectives";
import { serveCalls } from "../members.ts";

type PullRequest = Pick<MapOptions, "id" | "sections" | "holders"> & { readonly bytes: number };

const key = new Uint8Array(32).fill(9);
const job = "bench";
const deadlineMs = 60_000;

let store: VersionStore | undefined;
let own = new Uint8Array();
let views: Readonly<Record<string, Uint8Array>> = {};

serveCalls({
  /** Opens a store; gives its addresses. */
  async open(options: Omit<VersionStoreOptions, "key" | "job" | "slots">) {
    store = await openVersionStore({ key, job, slots: 2, ...options });
    return store.addresses;
  },
  /** Publishes a version of one section, or of as many as there are `pieces`. Its bytes are those of the version before, except a few. */
  async publish({
    id,
    bytes,
    pieces = 1,
  }: {
    id: { lineage: number; version: number };
    bytes: number;
    pieces?: number;
  }) {
    fit(bytes);
    new DataView(own.buffer).setUint32(0, id.version);
    return await store?.publish(id, sectionsOf(pieces));
  },
  /** Copies a version into memory of this process's own. */
  async pull({ bytes, pieces = 1, ...wanted }: PullRequest & { readonly pieces?: number }) {
    fit(bytes);
    const { via } = await pullVersion({ ...optionsOf(wanted), into: sectionsOf(pieces) });
    return { via };
  },
  /** Maps a version; from another host it lands in the store of this process. */
  async map({ bytes: _, ...wanted }: PullRequest) {
    const mapped = await mapVersion({ ...optionsOf(wanted), ...(store ? { keepIn: store } : {}) });
    const { via, from } = mapped;
    mapped.release();
    return { via, from };
  },
  /** Maps a version, and reads its last byte. */
  async look({ bytes, ...wanted }: PullRequest) {
    const mapped = await mapVersion(optionsOf(wanted));
    const last = new Uint8Array(1);
    const patience = { deadlineMs, signal: new AbortController().signal };
    await mapped.copyTo("weights", last, { ...patience, from: bytes - 1 }).finally(() => mapped.release());
    return last[0];
  },
});

/** Memory of the size, filled once, as an engine's is. */
function fit(bytes: number): void {
  if (own.byteLength !== bytes) own = new Uint8Array(bytes).fill(7);
}

/** The memory as sections of one size. The views are kept, as an engine keeps those of its tensors. */
function sectionsOf(pieces: number): Readonly<Record<string, Uint8Array>> {
  if (pieces === 1) return { weights: own };
  const size = own.byteLength / pieces;
  if (views["layer-0"]?.buffer !== own.buffer || views["layer-0"].byteLength !== size)
    views = Object.fromEntries(
      Array.from({ length: pieces }, (_, i) => [`layer-${i}`, own.subarray(i * size, (i + 1) * size)]),
    );
  return views;
}

function optionsOf(wanted: Omit<PullRequest, "bytes">): MapOptions {
  return { key, job, member: `reader-${process.pid}`, deadlineMs, signal: new AbortController().signal, ...wanted };
}
