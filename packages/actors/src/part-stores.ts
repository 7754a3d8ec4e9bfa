/**
 * The version stores of one replica: one for each part of a version, so that a part is published, kept and given up by itself. What was left out of a
 * version can be published later, and costs no memory until then.
 */
import type { SectionBytes } from "@muster/base";
import type { VersionStore } from "@muster/collectives";
import { partOf, type Section, sectionsOfPart, type VersionPart, versionParts } from "@muster/protocol";
import type { Ports } from "./ports.ts";
import { type OwnTable, tableSection } from "./tables.ts";
import { type MappedParts, sectionsOf } from "./weights.ts";

type StoreOptions = Parameters<Ports["versionStore"]>[0];
type VersionId = Parameters<VersionStore["publish"]>[0];

/** Room that sections take besides their bytes: each begins at a multiple of 64. */
const alignmentBytes = 64;

/** What of a version is published. */
interface Publication {
  readonly state: Readonly<Record<string, SectionBytes>>;
  readonly table?: OwnTable | undefined;
  /** More texts that lie beside the weights, by name. */
  readonly beside?: Readonly<Record<string, Uint8Array>>;
}

/** Parts of versions, offered to others. */
export class PartStores {
  readonly #stores: Readonly<Record<VersionPart, VersionStore>>;

  private constructor(stores: Readonly<Record<VersionPart, VersionStore>>) {
    this.#stores = stores;
  }

  /**
   * Opens the stores for versions with sections of these sizes, and texts of these sizes beside the weights.
   *
   * @throws what the port to version stores throws; nothing is open then.
   */
  static async open(
    ports: Pick<Ports, "versionStore">,
    sections: readonly Pick<Section, "name" | "bytes">[],
    options: Omit<StoreOptions, "slotBytes"> & { readonly textBytes?: readonly number[] },
  ): Promise<PartStores> {
    const { textBytes = [], ...rest } = options;
    const open = async (part: VersionPart): Promise<VersionStore> => {
      const own = sectionsOfPart(sections, part).map(({ bytes }) => bytes);
      const beside = part === "serving" ? textBytes : [];
      const slotBytes = [...own, ...beside].reduce((sum, bytes) => sum + bytes + alignmentBytes, 0);
      return await ports.versionStore({ ...rest, slotBytes: Math.max(alignmentBytes, slotBytes) });
    };
    const serving = await open("serving");
    try {
      return new PartStores({ serving, training: await open("training") });
    } catch (error) {
      await serving.close();
      throw error;
    }
  }

  /** The store of one part. */
  of(part: VersionPart): VersionStore {
    return this.#stores[part];
  }

  /** Where a version can be pulled: `serving` always, `training` while it is here. */
  addressesOf(id: VersionId): { readonly addresses: string[]; readonly training: string[] } {
    const { serving, training } = this.#stores;
    return { addresses: [...serving.addresses], training: training.holds(id) ? [...training.addresses] : [] };
  }

  /** True when every part of a version can be pulled from here. */
  holdsWhole(id: VersionId): boolean {
    return versionParts.every((part) => this.#stores[part].holds(id));
  }

  /**
   * Publishes those of the sections that belong to the parts, and beside the weights their table and other texts, where some are given.
   *
   * @returns Their sizes and digests. @throws what `VersionStore.publish` throws.
   */
  async publish(
    id: VersionId,
    { state, table, beside = {} }: Publication,
    parts: readonly VersionPart[],
  ): Promise<Section[]> {
    const published: Section[] = [];
    for (const part of parts) {
      const own = Object.entries(state).filter(([name]) => partOf({ name: sectionName(name) }) === part);
      const texts = part === "serving" ? { ...(table ? { [tableSection]: table.text } : {}), ...beside } : {};
      const infos = await this.#stores[part].publish(id, { ...Object.fromEntries(own), ...texts });
      published.push(...sectionsOf(infos.filter(({ name }) => !Object.hasOwn(texts, name))));
    }
    return published.map((section) =>
      section.name === "weights" && table ? { ...section, table: table.named } : section,
    );
  }

  /** Publishes those of the parts that were mapped, as copies of their own. @returns Their sizes and digests. @throws what `VersionStore.keep` throws. */
  async keep(
    id: VersionId,
    { versions }: Pick<MappedParts, "versions">,
    parts: readonly VersionPart[],
  ): Promise<Section[]> {
    const kept: Section[] = [];
    for (const part of parts) {
      const mapped = versions[part];
      if (mapped) kept.push(...sectionsOf(await this.#stores[part].keep(id, mapped)));
    }
    return kept;
  }

  /** Stops serving. Harmless twice. */
  async close(): Promise<void> {
    await Promise.all(versionParts.map((part) => this.#stores[part].close()));
  }
}

function sectionName(name: string): Section["name"] {
  return name === "optimizer" ? "optimizer" : "weights";
}
