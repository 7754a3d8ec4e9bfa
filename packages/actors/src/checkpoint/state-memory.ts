/** Training state that a checkpoint actor keeps in memory: the newest version that it was asked for, and the one before until that is whole. */
import type { CheckpointSection } from "@muster/checkpoint";
import { type Body, type Section, versionParts } from "@muster/protocol";
import { errors } from "../errors.ts";
import { PartStores } from "../part-stores.ts";
import type { Ports } from "../ports.ts";
import type { Admission, WorkTools } from "../replica/work.ts";
import { deltaOf, type MappedParts, mapParts, type WeightHolding } from "../weights.ts";

/** The newest version, and the one that takes its place. */
const slots = 2;

/** Share of the memory that is available which versions may take: what else runs on the host needs some, too. */
const shareMax = 0.75;

const megabytes = (bytes: number): string => `${Math.ceil(bytes / 1e6)} MB`;

/** The sections of a version where they lie, until they are released. */
export interface KeptSections {
  readonly bytes: Readonly<Record<string, CheckpointSection["bytes"]>>;
  release(): void;
}

const never = new AbortController().signal;

/**
 * Sections where they were mapped. They may outlive the order that they were mapped for, so an abort of that one ends no copy of them. Pure.
 *
 * @param deadlineMs - For each piece of them that is copied.
 */
export function keptWhere(
  mapped: MappedParts,
  { sections }: Pick<Body<"checkpoint.save">, "sections">,
  deadlineMs: number,
): KeptSections {
  const patience = { deadlineMs, signal: never };
  const bytes = sections.map(({ name, bytes: length }) => {
    const copyTo = (into: Uint8Array, from: number) => mapped.copyTo(name, into, { ...patience, from });
    return [name, { length, copyTo }] as const;
  });
  return { bytes: Object.fromEntries(bytes), release: () => mapped.release() };
}

/** Keeps versions. */
export class StateMemory {
  readonly #tools: WorkTools;
  readonly #ports: Ports;
  /** Opened with the first version, which says how large versions are. */
  #stores: PartStores | null = null;

  constructor(tools: WorkTools, ports: Ports) {
    this.#tools = tools;
    this.#ports = ports;
  }

  /**
   * Takes a version into memory and serves it from there. What is kept stays as it is until then.
   *
   * @throws MUSTER_ERR_MEMORY_TOO_SMALL when two versions do not fit, or three where checkpoints are written in shards; what stores and pulls throw.
   */
  async take(body: Body<"weights.pull">, admission: Admission, signal: AbortSignal): Promise<WeightHolding> {
    const { clock } = this.#tools.environment;
    const startedMs = clock.now();
    const { lineage, version } = body;
    this.#stores ??= await this.#open(body.sections, admission);
    const stores = this.#stores;
    // Only the part that comes last goes to its store as it arrives: a version that half arrived must not take the place of a whole one there.
    const keepIn = { training: stores.of("training") };
    const mapped = await mapParts({ ...this.#puller(admission), keepIn }, body, signal);
    try {
      signal.throwIfAborted();
      // What lies in the memory of a holder on this host goes with that holder.
      const parts = versionParts.filter((part) => !stores.of(part).holds(body));
      const taken = await stores.keep(body, mapped, parts);
      const sections = body.sections.map((section) => taken.find(({ name }) => name === section.name) ?? section);
      const durationMs = clock.now() - startedMs;
      return { lineage, version, sections, ...stores.addressesOf(body), bytes: mapped.bytes, durationMs };
    } finally {
      mapped.release();
    }
  }

  /** The sections of a version that is kept; `null` when it is not, or not any more. */
  async find(body: Body<"checkpoint.save">, admission: Admission, signal: AbortSignal): Promise<KeptSections | null> {
    const stores = this.#stores;
    if (!stores?.holdsWhole(body)) return null;
    const keepIn = { serving: stores.of("serving"), training: stores.of("training") };
    const mapped = await mapParts({ ...this.#puller(admission), keepIn }, body, signal);
    return keptWhere(mapped, body, admission.config.timing.pullMs);
  }

  /** Forgets everything. */
  async close(): Promise<void> {
    await this.#stores?.close();
  }

  #puller({ dataKey, config }: Admission): Omit<Parameters<typeof mapParts>[0], "keepIn"> {
    const { job, id } = this.#tools.identity;
    return { map: this.#ports.map, job, member: id, dataKey, config };
  }

  async #open(sections: readonly Section[], { dataKey, config }: Admission): Promise<PartStores> {
    const { job, id } = this.#tools.identity;
    const versionBytes = sections.reduce((sum, { bytes }) => sum + bytes, 0);
    const available = this.#ports.availableMemory();
    // Who writes shards keeps the version until it is told of a newer one.
    const versions = slots + ((config.checkpoint.shards ?? 1) > 1 ? 1 : 0);
    if (versions * versionBytes > shareMax * available)
      throw errors.MemoryTooSmall({
        versions: versions === slots ? "two" : "three",
        wanted: megabytes(versions * versionBytes),
        share: `${100 * shareMax} %`,
        available: megabytes(available),
      });
    const { tcpHost, socketDirectory: socketDir } = config.data;
    return await PartStores.open(this.#ports, sections, {
      ...{ key: dataKey, job, member: id, socketDir, slots },
      // An address, other than a network, is that of the policy replicas' host.
      tcpHost: tcpHost?.includes("/") ? tcpHost : null,
      delta: { ...deltaOf(config), keep: 0 },
    });
  }
}
