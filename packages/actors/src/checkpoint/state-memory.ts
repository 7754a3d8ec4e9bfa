/** Training state that a checkpoint actor keeps in memory: the newest version that it was asked for, and the one before until that is whole. */
import type { VersionStore } from "@muster/collectives";
import type { Body, Section } from "@muster/protocol";
import type { Doors } from "../doors.ts";
import { errors } from "../errors.ts";
import type { Admission, WorkTools } from "../replica/work.ts";
import { deltaOf, type Held, mapSections, sectionsOf } from "../weights.ts";

/** The newest version, and the one that takes its place. */
const slots = 2;

/** Share of the memory that is available which versions may take: what else runs on the host needs some, too. */
const shareMax = 0.75;

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1e6)} MB`;

/** The sections of a version where they lie, until they are released. */
export interface KeptSections {
  readonly bytes: Readonly<Record<string, Uint8Array>>;
  release(): void;
}

/** Keeps versions. */
export class StateMemory {
  readonly #tools: WorkTools;
  readonly #doors: Doors;
  /** Opened with the first version, which says how large versions are. */
  #store: VersionStore | null = null;

  constructor(tools: WorkTools, doors: Doors) {
    this.#tools = tools;
    this.#doors = doors;
  }

  /**
   * Takes a version into memory and serves it from there. What is kept stays as it is until then.
   *
   * @throws MUSTER_ERR_MEMORY_TOO_SMALL when two versions do not fit; what stores and pulls throw.
   */
  async take(body: Body<"weights.pull">, admission: Admission, signal: AbortSignal): Promise<Held> {
    const { clock } = this.#tools.environment;
    const startedMs = clock.now();
    const { lineage, version } = body;
    this.#store ??= await this.#open(body.sections, admission);
    const store = this.#store;
    const mapped = await mapSections(this.#puller(admission, store), body, signal);
    try {
      signal.throwIfAborted();
      // What lies in the memory of a holder on this host goes with that holder.
      const sections = store.holds(body) ? body.sections : sectionsOf(await store.publish(body, mapped.sections));
      const durationMs = clock.now() - startedMs;
      return { lineage, version, sections, addresses: [...store.addresses], bytes: mapped.bytes, durationMs };
    } finally {
      mapped.release();
    }
  }

  /** The sections of a version that is kept; `null` when it is not, or not any more. */
  async find(body: Body<"checkpoint.save">, admission: Admission, signal: AbortSignal): Promise<KeptSections | null> {
    const store = this.#store;
    if (!store?.holds(body)) return null;
    const mapped = await mapSections(this.#puller(admission, store), body, signal);
    return { bytes: mapped.sections, release: () => mapped.release() };
  }

  /** Forgets everything. */
  async close(): Promise<void> {
    await this.#store?.close();
  }

  #puller({ dataKey, config }: Admission, keepIn: VersionStore): Parameters<typeof mapSections>[0] {
    const { job, id } = this.#tools.identity;
    return { map: this.#doors.map, keepIn, job, member: id, dataKey, config };
  }

  async #open(sections: readonly Section[], { dataKey, config }: Admission): Promise<VersionStore> {
    const { job, id } = this.#tools.identity;
    const slotBytes = sections.reduce((sum, { bytes }) => sum + bytes + 64, 0);
    const available = this.#doors.availableMemory();
    if (slots * slotBytes > shareMax * available)
      throw errors.MemoryTooSmall({
        wanted: megabytes(slots * slotBytes),
        share: `${100 * shareMax} %`,
        available: megabytes(available),
      });
    const { tcpHost, socketDirectory: socketDir } = config.data;
    return await this.#doors.versionStore({
      ...{ key: dataKey, job, member: id, socketDir, slotBytes, slots },
      // An address, other than a network, is that of the policy replicas' host.
      tcpHost: tcpHost?.includes("/") ? tcpHost : null,
      delta: { ...deltaOf(config), keep: 0 },
    });
  }
}
