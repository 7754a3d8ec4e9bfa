/** Finds what earlier holders drew of groups that are not finished. */
import { type Logger, messageOf } from "@muster/base";
import type { Chunk } from "@muster/machines";
import { type BegunGroup, type BegunPart, fromGroupsBegun, joinBegun, type WorkItem } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { errors } from "../errors.ts";
import { fetchBody } from "../groups/fetch.ts";
import { engineVersionOf } from "../weights.ts";
import { partsMax } from "./begun.ts";
import { withVersions } from "./versions.ts";

/** What reading works with. */
export interface ReadTools {
  readonly transport: Pick<Transport, "fetch">;
  readonly logger: Logger;
  /** Most bytes of what is stored as one body. */
  readonly bodyBytesMax: number;
}

/**
 * What earlier holders drew of these items, by group index, in the engine's version numbers. What cannot be read, or comes from
 * another lineage, is left out: then the group is generated from its beginning, with the same result in `sync` mode.
 */
export async function readBegun(
  { items, lineage }: Pick<Chunk, "items" | "lineage">,
  tools: ReadTools,
): Promise<ReadonlyMap<number, BegunGroup>> {
  const reader = new PartReader(lineage, tools);
  const read = await Promise.all(items.map((item) => readOne(item, reader, tools.logger)));
  return new Map(
    read.flatMap((group) =>
      group ? [[group.index, withVersions(group, (version) => engineVersionOf({ lineage, version }))]] : [],
    ),
  );
}

async function readOne(item: WorkItem, reader: PartReader, logger: Logger): Promise<BegunGroup | null> {
  if (item.purpose === "eval" || !item.partial) return null;
  const { step, index, partial } = item;
  try {
    return await reader.groupOf({ step, index, seq: partial.streamSeq });
  } catch (error) {
    const reason = messageOf(error);
    logger.warn(
      { step, index, seq: partial.streamSeq, reason },
      "what was begun can not be read; it is generated from its beginning",
    );
    return null;
  }
}

/** A group of which a part is in a message. */
interface GroupSource {
  readonly step: number;
  readonly index: number;
  readonly seq: number;
}

/** Reads each message once, however many groups are in it. */
class PartReader {
  readonly #lineage: number;
  readonly #tools: ReadTools;
  readonly #bodies = new Map<number, Promise<readonly BegunPart[]>>();

  constructor(lineage: number, tools: ReadTools) {
    this.#lineage = lineage;
    this.#tools = tools;
  }

  /** All of a group. @returns `null` for one of another lineage, or that is not there. @throws what is wrong with what is there. */
  async groupOf({ step, index, seq }: GroupSource): Promise<BegunGroup | null> {
    const parts: BegunPart[] = [];
    for (let at: number | null = seq; at !== null; at = parts.at(-1)?.before ?? null) {
      if (parts.length === partsMax)
        throw errors.GroupsMalformed({ seq, reason: `it goes on from more than ${partsMax} parts` });
      const all: readonly BegunPart[] = await this.#partsOf(at);
      const part = all.find((one) => one.step === step && one.index === index);
      if (!part) return null;
      parts.push(part);
    }
    return parts.reduceRight<BegunGroup | null>((earlier, part) => {
      const whole = earlier === null ? part : joinBegun(earlier, part);
      if (!whole) throw errors.GroupsMalformed({ seq, reason: "its parts do not fit together" });
      return { step, index, responses: whole.responses };
    }, null);
  }

  #partsOf(seq: number): Promise<readonly BegunPart[]> {
    const read = this.#bodies.get(seq) ?? this.#read(seq);
    this.#bodies.set(seq, read);
    return read;
  }

  async #read(seq: number): Promise<readonly BegunPart[]> {
    const { transport, bodyBytesMax } = this.#tools;
    const stored = await fetchBody(transport, seq, bodyBytesMax);
    return stored.kind === "groups.begun" && stored.body.lineage === this.#lineage ? fromGroupsBegun(stored.body) : [];
  }
}
