/** Groups that a replica began: how they are stored where finished groups are, and found again by the next holder. */
import { type Logger, messageOf } from "@muster/base";
import type { Chunk, RolloutEvent } from "@muster/machines";
import {
  type BegunGroup,
  decodeMessage,
  fromGroupsBegun,
  type Segment,
  subjectsOf,
  toGroupsBegun,
  type WorkItem,
} from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import type { Transport } from "@muster/transport";
import type { WorkTools } from "../replica/work.ts";
import { engineVersionOf, policyVersionOf } from "../weights.ts";
import { piecesOfBegun } from "./pieces.ts";

type TrainItem = Extract<WorkItem, { purpose: "train" }>;

/** The tools of a chunk, with a word for each of its messages that is on its way to the broker, or held back. */
export type Sending = HostTools<RolloutEvent> & {
  readonly sent: () => void;
  readonly heldBack: (reason: string) => void;
  /** The same, of results: the whole chunk is computed then. */
  readonly resultsHeldBack: (reason: string) => void;
};

/**
 * Tells of a chunk whose messages a full stream holds back: at once, and again every quarter of a lease while it lasts, so that the lease
 * does not end meanwhile.
 */
export function heldBackTellers(
  { leaseId, items }: Pick<Chunk, "leaseId" | "items">,
  { clock, post }: Pick<HostTools<RolloutEvent>, "clock" | "post">,
  leaseMs: number,
): Pick<Sending, "heldBack" | "resultsHeldBack"> {
  const tellerOf = (computed: readonly WorkItem[]): Sending["heldBack"] => {
    let dueMs = clock.now();
    return (reason) => {
      if (clock.now() < dueMs) return;
      dueMs = clock.now() + leaseMs / 4;
      post({ type: "groups.heldBack", leaseId, reason, items: computed });
    };
  };
  return { heldBack: tellerOf([]), resultsHeldBack: tellerOf(items) };
}

/** Keeps what is drawn of the groups of one chunk where others find it. */
export interface BegunKeeper {
  /** For the case that this process dies. @returns False while the broker is still to take what was drawn before. */
  save(begun: readonly BegunGroup[]): boolean;
  /** It goes back to the controller once the broker has it, so that the next holder can go on with it. */
  handOver(begun: readonly BegunGroup[]): void;
}

/** Makes the keeper of a chunk. */
export function keeperOf(chunk: Chunk, { outbox, enveloper, identity, beats }: WorkTools, tools: Sending): BegunKeeper {
  const { id: chunkId, leaseId, lineage } = chunk;
  /** Messages that the broker has not taken yet. */
  let waiting = 0;
  const store = (all: readonly BegunGroup[], onStored: (items: readonly WorkItem[]) => void): number => {
    const taken = piecesOfBegun(all.map(forOthers)).filter((begun) =>
      outbox.offer({
        subject: subjectsOf(identity.job).groups(identity.id),
        message: enveloper.stamp("groups.begun", toGroupsBegun(lineage, begun)),
        onStored: ({ seq }) => onStored(withPartials(chunk.items, begun, seq)),
        onHeldBack: tools.heldBack,
      }),
    );
    return taken.length;
  };
  return {
    save(begun) {
      // Whoever draws makes progress, however long a response is.
      beats.progress(begun.length);
      if (waiting > 0) return false;
      waiting = store(begun, (items) => {
        waiting -= 1;
        tools.post({ type: "groups.saved", leaseId, items });
      });
      return true;
    },
    handOver(begun) {
      const messages = store(begun, (items) => tools.post({ type: "groups.begun", chunkId, leaseId, items }));
      for (let i = 0; i < messages; i++) tools.sent();
    },
  };
}

/** A begun group with its versions in the numbers of the policy, not of the engine. Pure. */
function forOthers(group: BegunGroup): BegunGroup {
  return withVersions(group, policyVersionOf);
}

/** The items that are among what was begun, with where that is stored. Pure. */
function withPartials(items: readonly WorkItem[], begun: readonly BegunGroup[], streamSeq: number): WorkItem[] {
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
