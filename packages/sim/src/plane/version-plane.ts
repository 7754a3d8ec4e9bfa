/** Where the parts of weight versions lie and how they are pulled: real bytes, simulated links. */
import { cutInto } from "@muster/actors/internal";
import { invariant } from "@muster/base";
import type {
  MappedVersion,
  mapVersion,
  PullResult,
  PullShardsResult,
  pullShards,
  pullVersion,
  VersionStore,
} from "@muster/collectives";
import { copyOf } from "@muster/engine/internal";
import { errors } from "../errors.ts";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";

type PullOptions = Parameters<typeof pullVersion>[0];
type MapOptions = Parameters<typeof mapVersion>[0];
type StoreOptions = Parameters<VersionStoreOpener>[0];
type VersionStoreOpener = (options: { readonly member: string; readonly slots?: number }) => Promise<VersionStore>;

/** How long a connection to a holder may take before the next one is tried. */
const connectMs = 2_000;
/** How long a holder that gets a version itself is waited for. */
const arrivingMs = 2_000;
const copyMs = 40;

interface Holding {
  readonly process: SimProcess;
  readonly versions: Map<string, Readonly<Record<string, Uint8Array>>>;
  /** Versions on their way into this store: others may ask for them, and wait. */
  readonly arriving: Set<string>;
  readonly slots: number;
}

/** Faults of the links between replicas. */
export interface PlaneFaults {
  /** True while two processes cannot reach each other on the data plane. */
  isCut(a: SimProcess, b: SimProcess): boolean;
  /** True when the bytes of this transfer arrive changed. */
  corrupts(): boolean;
}

/** What canary bugs do to the data plane. */
export interface PlaneBug {
  readonly skipsDigest?: boolean;
}

/** The version stores of a simulation. */
export class VersionPlane {
  readonly #holdings = new Map<string, Holding>();
  readonly #mapped = new WeakMap<MappedVersion, Readonly<Record<string, Uint8Array>>>();
  readonly #failpoints: Failpoints;
  readonly #faults: PlaneFaults;
  readonly #digest: (bytes: Uint8Array) => string;
  readonly #skipsDigest: boolean;
  #opened = 0;

  constructor(
    failpoints: Failpoints,
    given: { readonly faults: PlaneFaults; readonly digest: (bytes: Uint8Array) => string } & PlaneBug,
  ) {
    this.#failpoints = failpoints;
    this.#faults = given.faults;
    this.#digest = given.digest;
    this.#skipsDigest = given.skipsDigest ?? false;
  }

  /** Opens the store of a process; it is gone when the process is. */
  async openStore(process: SimProcess, { slots = 2 }: StoreOptions): Promise<VersionStore> {
    await this.#failpoints.pass(process, `${process.role}.store-open`);
    // A process has a store for each part of its versions: what is not published in one of them can not be pulled from there.
    this.#opened += 1;
    const address = `sim:${process.name}/${this.#opened}`;
    const versions = new Map<string, Readonly<Record<string, Uint8Array>>>();
    this.#holdings.set(address, { process, versions, arriving: new Set(), slots });
    process.onDeath(() => this.#holdings.delete(address));
    const store: VersionStore = {
      addresses: [address],
      keep: (id, mapped) => store.publish(id, this.#mapped.get(mapped) ?? {}),
      publish: async (id, sections) => {
        const copies = Object.fromEntries(Object.entries(sections).map(([name, bytes]) => [name, copyOf(bytes)]));
        await this.#failpoints.pass(process, `${process.role}.store-publish`);
        await process.sleep(copyMs);
        versions.set(keyOf(id), copies);
        trim(versions, slots);
        await this.#failpoints.pass(process, `${process.role}.store-published`);
        return Object.entries(copies).map(([name, bytes]) => ({
          name,
          bytes: bytes.length,
          digest: this.#digest(bytes),
        }));
      },
      holds: (id) => versions.has(keyOf(id)),
      versions: () =>
        [...versions.keys()].map((key) => {
          const [lineage = "0", version = "0"] = key.split(".");
          return { lineage: Number(lineage), version: Number(version) };
        }),
      close: async () => {
        this.#holdings.delete(address);
      },
    };
    return store;
  }

  /** Pulls a version from the first holder that gives it whole. */
  async pull(process: SimProcess, options: PullOptions): Promise<PullResult> {
    const { holders, id, signal, deadlineMs, sections } = options;
    const startedMs = process.clock.now();
    let reason = "no holder was named";
    for (const address of holders) {
      signal.throwIfAborted();
      if (process.clock.now() - startedMs > deadlineMs) throw this.#failure(options, "the deadline passed");
      const fault = await this.#pullFrom(process, address, options);
      const bytes = sections.reduce((sum, section) => sum + section.bytes, 0);
      if (fault === null)
        return {
          bytes,
          durationMs: process.clock.now() - startedMs,
          via: "tcp",
          from: address,
          wireBytes: bytes,
          base: null,
        };
      reason = fault;
    }
    throw this.#failure({ id, holders }, reason);
  }

  /** Pulls what a plan says, from all of its sources at the same time. */
  async pullShards(process: SimProcess, options: Parameters<typeof pullShards>[0]): Promise<PullShardsResult> {
    const { plan, sources, into, ...asked } = options;
    const startedMs = process.clock.now();
    const one = async (from: number): Promise<number> => {
      const { holders = [], section } = sources[from] ?? {};
      invariant(section, "there is a source for each rank of a plan");
      const whole = new Uint8Array(section.bytes);
      const { wireBytes } = await this.pull(process, {
        ...{ ...asked, holders, sections: [section], into: { [section.name]: whole } },
      });
      cutInto({ ...plan, slices: plan.slices.filter((slice) => slice.from === from) }, whole, into);
      return wireBytes;
    };
    const wire = await Promise.all([...new Set(plan.slices.map(({ from }) => from))].map(one));
    const sum = (all: readonly number[]): number => all.reduce((total, each) => total + each, 0);
    const bytes = sum(plan.slices.map((slice) => slice.bytes * slice.count));
    return { bytes, wireBytes: sum(wire), durationMs: process.clock.now() - startedMs };
  }

  /** Pulls as `pull` does; a store that keeps the version has it for others as soon as it is whole. */
  async map(process: SimProcess, options: MapOptions): Promise<MappedVersion> {
    const sections = Object.fromEntries(options.sections.map(({ name, bytes }) => [name, new Uint8Array(bytes)]));
    const own = this.#holdings.get(options.keepIn?.addresses[0] ?? "");
    const key = keyOf(options.id);
    const mappedOf = (result: PullResult): MappedVersion => {
      const copyTo: MappedVersion["copyTo"] = async (name, into, { from = 0 }) =>
        into.set(sections[name]?.subarray(from, from + into.length) ?? []);
      const mapped = { ...result, copyTo, release: () => {} };
      this.#mapped.set(mapped, sections);
      return mapped;
    };
    const kept = own?.versions.get(key);
    if (kept) {
      for (const { name } of options.sections) sections[name]?.set(kept[name] ?? []);
      const bytes = options.sections.reduce((sum, section) => sum + section.bytes, 0);
      const result = {
        bytes,
        durationMs: 0,
        via: "memory",
        from: options.keepIn?.addresses[0] ?? "",
        wireBytes: 0,
        base: null,
      } as const;
      return mappedOf(result);
    }
    own?.arriving.add(key);
    try {
      const result = await this.pull(process, { ...options, into: sections });
      if (own) {
        own.versions.set(
          key,
          Object.fromEntries(Object.entries(sections).map(([name, bytes]) => [name, bytes.slice()])),
        );
        trim(own.versions, own.slots);
      }
      return mappedOf(result);
    } finally {
      own?.arriving.delete(key);
    }
  }

  /** @returns `null`, or why this holder was of no use. */
  async #pullFrom(process: SimProcess, address: string, options: PullOptions): Promise<string | null> {
    const { id, sections, into, signal } = options;
    await this.#failpoints.pass(process, `${process.role}.pull-begin`);
    const holding = this.#holdings.get(address);
    if (!holding) {
      await process.sleep(1, signal);
      return `${address} refused the connection`;
    }
    if (holding.process.state !== "running" || this.#faults.isCut(process, holding.process)) {
      await process.sleep(connectMs, signal);
      return `${address} did not answer`;
    }
    for (let waitedMs = 0; holding.arriving.has(keyOf(id)) && waitedMs < arrivingMs; waitedMs += copyMs)
      await process.sleep(copyMs, signal);
    const found = holding.versions.get(keyOf(id));
    if (!found) return `${address} does not hold version ${id.version} of lineage ${id.lineage}`;
    const corrupt = this.#faults.corrupts();
    for (const { name, digest } of sections) {
      const bytes = found[name];
      const target = into[name];
      invariant(target, `a pull has a target for section ${name}`);
      if (!bytes) return `${address} has no section ${name} of version ${id.version}`;
      if (bytes.length !== target.length) return `${address} holds a section ${name} of another size`;
      const half = bytes.length >> 1;
      target.set(bytes.subarray(0, half));
      await process.sleep(copyMs / 2, signal);
      await this.#failpoints.pass(process, `${process.role}.pull-midway`);
      if (holding.process.isDead) return `${address} died midway`;
      if (this.#faults.isCut(process, holding.process)) return `${address} was cut off midway`;
      target.set(bytes.subarray(half), half);
      if (corrupt) target[half] = (target[half] as number) ^ 0x40;
      if (!this.#skipsDigest && this.#digest(target) !== digest) return `section ${name} of ${address} is corrupt`;
    }
    await this.#failpoints.pass(process, `${process.role}.pull-end`);
    return null;
  }

  #failure({ id, holders }: Pick<PullOptions, "id" | "holders">, reason: string): Error {
    return errors.SimPullFailed({ version: id.version, holders: holders.length, reason });
  }
}

/** Drops the oldest versions over the number of slots. */
function trim(versions: Map<string, unknown>, slots: number): void {
  for (const key of versions.keys()) if (versions.size > slots) versions.delete(key);
}

function keyOf({ lineage, version }: { readonly lineage: number; readonly version: number }): string {
  return `${lineage}.${version}`;
}
