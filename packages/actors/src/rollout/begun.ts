/** Groups that a replica began and handed back: how they are stored where finished groups are, and found again by the next holder. */
import { type Logger, messageOf } from "@muster/base";
import type { Chunk } from "@muster/machines";
import { type BegunGroup, decodeMessage, fromGroupsBegun, type Segment, type WorkItem } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { engineVersionOf, policyVersionOf } from "../weights.ts";

type TrainItem = Extract<WorkItem, { purpose: "train" }>;

/** Begun groups with their versions in the numbers of the policy, not of the engine. Pure. */
export function forOthers(begun: readonly BegunGroup[]): readonly BegunGroup[] {
  return begun.map((group) => withVersions(group, policyVersionOf));
}

/** The items that are among what was begun, with where that is stored. Pure. */
export function withPartials(items: readonly WorkItem[], begun: readonly BegunGroup[], streamSeq: number): WorkItem[] {
  return items.flatMap((item): WorkItem[] => {
    if (item.purpose === "eval") return [];
    const group = begun.find(({ step, index }) => step === item.step && index === item.index);
    if (!group) return [];
    const tokens = group.responses.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
    return [{ ...item, partial: { streamSeq, tokens } }];
  });
}

/**
 * What earlier holders drew of these items, by group index, in the engine's version numbers. What cannot be read, or comes from
 * another lineage, is left out: then the group is generated from its beginning, with the same result in `sync` mode.
 */
export async function readBegun(
  transport: Transport,
  { items, lineage }: Pick<Chunk, "items" | "lineage">,
  logger: Logger,
): Promise<ReadonlyMap<number, BegunGroup>> {
  const resumed = items.filter((item): item is TrainItem => item.purpose === "train" && item.partial !== undefined);
  const seqs = [...new Set(resumed.flatMap(({ partial }) => partial?.streamSeq ?? []))];
  const read = await Promise.all(seqs.map((seq) => readOne(transport, { seq, lineage }, logger)));
  const isWanted = ({ step, index }: BegunGroup): boolean =>
    resumed.some((item) => item.step === step && item.index === index);
  const groups = read.flat().filter(isWanted);
  return new Map(
    groups.map((group) => [group.index, withVersions(group, (version) => engineVersionOf({ lineage, version }))]),
  );
}

async function readOne(
  transport: Transport,
  { seq, lineage }: { readonly seq: number; readonly lineage: number },
  logger: Logger,
): Promise<readonly BegunGroup[]> {
  try {
    const message = decodeMessage(await transport.fetch("groups", seq));
    const isUsable = message.kind === "groups.begun" && message.body.lineage === lineage;
    return isUsable ? fromGroupsBegun(message.body) : [];
  } catch (error) {
    logger.warn(
      { seq, reason: messageOf(error) },
      "what was begun can not be read; it is generated from its beginning",
    );
    return [];
  }
}

function withVersions(group: BegunGroup, numberOf: (version: number) => number): BegunGroup {
  const renumbered = (segment: Segment): Segment => ({ ...segment, version: numberOf(segment.version) });
  return {
    ...group,
    responses: group.responses.map((response) => ({ ...response, segments: response.segments.map(renumbered) })),
  };
}
