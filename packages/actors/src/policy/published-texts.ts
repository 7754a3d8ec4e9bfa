/** What a trainer of several processes serves as a whole: the lists of its shards, the table of its tensors, and where its ranks serve. */
import type { VersionPart } from "@muster/protocol";
import type { PartStores } from "../part-stores.ts";
import { listBytesMax, type RankAddresses, ranksSection, ranksText } from "../shards/rank-texts.ts";
import type { ListedSection } from "../shards/sharded-sections.ts";
import type { WeightHolding } from "../weights.ts";
import type { Published, StateTools } from "./trainer-state.ts";
import { openTrainerStores } from "./trainer-stores.ts";

type Ranks = NonNullable<WeightHolding["ranks"]>;

/** The texts of one trainer, in stores of their own: a list is known when every rank has published its shard, and not before. */
export class PublishedTexts {
  readonly #tools: Pick<StateTools, "table">;
  readonly #stores: PartStores;
  readonly #text: Uint8Array;
  readonly #ranks: Ranks;

  private constructor(tools: Pick<StateTools, "table">, given: { stores: PartStores; text: Uint8Array; ranks: Ranks }) {
    this.#tools = tools;
    this.#stores = given.stores;
    this.#text = given.text;
    this.#ranks = given.ranks;
  }

  /** Opens them for ranks that serve at these addresses. @throws what the port to version stores throws */
  static async open(
    tools: Omit<StateTools, "engine" | "environment">,
    ranks: readonly RankAddresses[],
  ): Promise<PublishedTexts> {
    const { ports, config, dataKey, identity, table } = tools;
    const text = ranksText(ranks);
    const [digest = ""] = await ports.digests([text], new AbortController().signal);
    const listBytes = listBytesMax(ranks.length);
    const stores = await openTrainerStores(ports, {
      ...{ job: identity.job, member: identity.id, dataKey, config },
      ...{ weightsBytes: listBytes, optimizerBytes: listBytes, textBytes: [table.text.length, text.length] },
    });
    return new PublishedTexts(tools, { stores, text, ranks: { of: ranks.length, bytes: text.length, digest } });
  }

  /** Publishes the lists of the parts that every rank has published. */
  async publish(
    id: Pick<WeightHolding, "lineage" | "version">,
    listed: readonly ListedSection[],
    parts: readonly VersionPart[],
  ): Promise<Published> {
    const state = Object.fromEntries(listed.map(({ section, list }) => [section.name, list]));
    const { table } = this.#tools;
    await this.#stores.publish(id, { state, table, beside: { [ranksSection]: this.#text } }, parts);
    const sections = listed.map(({ section }) => section);
    return { sections, ...this.#stores.addressesOf(id), ranks: this.#ranks };
  }

  async close(): Promise<void> {
    await this.#stores.close();
  }
}
