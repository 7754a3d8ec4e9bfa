/** Publishing weight versions: copies them into shared memory once, then serves any number of readers from native threads. */
import type { SectionBytes } from "@muster/base";
import { checkKey, checkName, checkWhole } from "./check.ts";
import { errorOf, errors } from "./errors.ts";
import { localAddressOf } from "./local-address.ts";
import type { MappedVersion, VersionId } from "./mapped-version.ts";
import {
  cancellable,
  type NativeCancellation,
  type NativeOutcome,
  type NativePublication,
  type NativeStore,
  native,
} from "./native.ts";
import { nativeMappedOf, rememberStore } from "./open-stores.ts";
import { piecesOf } from "./section-bytes.ts";
import { joinNames, splitDigests } from "./section-table.ts";

/** One section of a version, e.g. `weights` or `optimizer`: its size and the digest that names its content. */
export interface SectionInfo {
  readonly name: string;
  readonly bytes: number;
  /** See `digestOf`. */
  readonly digest: string;
}

/** Where a version store lives and how much it holds. */
export interface VersionStoreOptions {
  /** Secret of the job, at least 16 bytes; readers prove that they know it, and so does the store. */
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  /** Existing folder for the Unix socket; its path takes at most 83 bytes. */
  readonly socketDir: string;
  /**
   * Where to serve other hosts, at a port of the kernel's choice: a numeric IP address of this host, or a network such as `10.0.0.0/8`, which
   * stands for this host's address in it; `null` for this host only.
   */
  readonly tcpHost: string | null;
  /** Room for the sections of one version, each aligned to 64 bytes. */
  readonly slotBytes: number;
  /** Versions kept at a time, 2 … 16; default 2. */
  readonly slots?: number;
  /** How versions come into this store from other hosts; `deltaDefaults` for what is left out. */
  readonly delta?: Partial<DeltaOptions>;
}

/** When a version crosses a network as what changed since another one. */
export interface DeltaOptions {
  /**
   * `never` asks for whole versions; `always` for deltas; `auto` for what was faster from the same holder. On one host nothing crosses, and
   * a holder sends a block whole wherever its delta would have more than half of its bytes.
   */
  readonly mode: "never" | "auto" | "always";
  /** Every so many versions one comes whole, whatever pays, 0 … 1,000,000; 0: none. It also shows `auto` what whole versions take. */
  readonly anchorEvery: number;
  /** Deltas that a holder remembers, 0 … 64, so that readers that are as many versions behind need no whole version. */
  readonly keep: number;
}

/** Deltas when the options do not say. */
export const deltaDefaults: DeltaOptions = { mode: "auto", anchorEvery: 25, keep: 4 };

/** The versions that this process offers to others. Does not keep the process alive. */
export interface VersionStore {
  /** Where readers find it, nearest first: `unix:/…` then `tcp:host:port`. */
  readonly addresses: readonly string[];
  /**
   * Copies the sections, digests them and makes the version visible, in the place of the oldest one. Takes no notice of readers: one that
   * still reads the oldest version keeps its memory. The bytes must neither change nor be transferred until the promise settles.
   * Publishing the same version with the same bytes again does nothing. A section may come in pieces, one behind the other; each but the last is
   * a multiple of 256 KiB. So it may be larger than what JavaScript can hold in one buffer.
   *
   * @returns The sections in the order given.
   * @throws MUSTER_ERR_VERSION_CONFLICT for other bytes under an id that is here.
   * @throws MUSTER_ERR_VERSION_TOO_LARGE when they do not fit into a slot.
   * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a section name that is empty, longer than 1024 bytes, or has NUL in it, and for a piece of
   *   another length.
   * @throws MUSTER_ERR_VERSION_STORE_CLOSED
   */
  publish(id: VersionId, sections: Readonly<Record<string, SectionBytes>>): Promise<readonly SectionInfo[]>;
  /**
   * Publishes what was mapped, as a copy of its own: what lies in the memory of a holder on this host goes with that holder. It may be released at
   * once.
   *
   * @throws As `publish`; MUSTER_ERR_NATIVE_OPTION_INVALID for a version that was released.
   */
  keep(id: VersionId, mapped: MappedVersion): Promise<readonly SectionInfo[]>;
  /** True while the version can be pulled from here. */
  holds(id: VersionId): boolean;
  /** What can be pulled from here, oldest publication first. */
  versions(): readonly VersionId[];
  /** Stops serving; readers in the middle go on with another holder. Harmless twice. */
  close(): Promise<void>;
}

/**
 * Opens a version store. Slots take memory when they are first written, and give it back when the store is closed and the last
 * reader has let go.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_OPTION_INVALID, MUSTER_ERR_NATIVE_FAILED
 */
export async function openVersionStore(options: VersionStoreOptions): Promise<VersionStore> {
  const { key, job, member, socketDir, tcpHost, slotBytes, slots = 2 } = options;
  checkKey(key);
  checkName("job", job);
  checkName("member", member);
  checkWhole("slotBytes", slotBytes, { min: 1, max: 2 ** 46 });
  checkWhole("slots", slots, { min: 2, max: 16 });
  const delta = { ...deltaDefaults, ...options.delta };
  checkWhole("delta.anchorEvery", delta.anchorEvery, { min: 0, max: 1_000_000 });
  checkWhole("delta.keep", delta.keep, { min: 0, max: 64 });
  const host = tcpHost === null ? null : localAddressOf(tcpHost);
  const opened = await native().openStore({ key, job, member, socketDir, tcpHost: host, slotBytes, slots, delta });
  if (!opened.ok) throw errorOf("publish", opened, {});
  return new OpenVersionStore(opened.value);
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export function checkVersionId(id: VersionId): void {
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER };
  checkWhole("lineage", id.lineage, range);
  checkWhole("version", id.version, range);
}

/** `lineage/version`, for messages. */
export const versionText = ({ lineage, version }: VersionId): string => `${lineage}/${version}`;

class OpenVersionStore implements VersionStore {
  readonly addresses: readonly string[];
  readonly #store: NativeStore;
  readonly #closing = new AbortController();

  constructor(store: NativeStore) {
    this.#store = store;
    this.addresses = store.addresses;
    rememberStore(this, store.store);
  }

  async publish(id: VersionId, sections: Readonly<Record<string, SectionBytes>>): Promise<readonly SectionInfo[]> {
    const given = Object.entries(sections).map(([name, bytes]) => ({ name, pieces: piecesOf(name, bytes) }));
    const pieces = Uint32Array.from(given, (each) => each.pieces.length);
    const views = given.flatMap((each) => each.pieces);
    const described = given.map(({ name, pieces }) => ({
      name,
      bytes: pieces.reduce((sum, p) => sum + p.byteLength, 0),
    }));
    return await this.#publish(id, described, (call) => this.#store.publish({ ...call, sections: views, pieces }));
  }

  async keep(id: VersionId, mapped: MappedVersion): Promise<readonly SectionInfo[]> {
    const { handle, sections } = nativeMappedOf(mapped);
    return await this.#publish(id, sections, (call) => this.#store.keep({ ...call, mapped: handle }));
  }

  async #publish(
    { lineage, version }: VersionId,
    sections: readonly { readonly name: string; readonly bytes: number }[],
    start: (call: NativePublication) => Promise<NativeOutcome<string>>,
  ): Promise<readonly SectionInfo[]> {
    checkVersionId({ lineage, version });
    for (const { name } of sections) checkName("section", name);
    const names = joinNames(sections.map(({ name }) => name));
    const published = await cancellable(this.#closing.signal, (cancellation: NativeCancellation) =>
      start({ lineage, version, names, cancellation }),
    );
    if (published.ok) {
      const digests = splitDigests(published.value);
      return sections.map(({ name, bytes }, i) => ({ name, bytes, digest: digests[i] ?? "" }));
    }
    if (published.code === "ABORTED") throw errors.VersionStoreClosed();
    throw errorOf("publish", published, {});
  }

  holds(id: VersionId): boolean {
    checkVersionId(id);
    return this.#store.holds({ lineage: id.lineage, version: id.version });
  }

  versions(): readonly VersionId[] {
    return this.#store.versions();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#store.close();
  }
}
