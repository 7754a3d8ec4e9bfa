/** Groups that a replica began: they are stored where finished groups are, each time what came since the last time, and found again by the next holder. */
import type { Chunk, RolloutEvent } from "@muster/machines";
import {
  type BegunGroup,
  type BegunPart,
  type BegunTrajectory,
  bodyBytesMax,
  firstSeqOf,
  type JobConfig,
  partSince,
  placeOf,
  type StreamPlace,
  toGroupsBegun,
  type WorkItem,
  wholePart,
} from "@muster/protocol";
import type { HostTools } from "@muster/runtime";
import { type StoreTools, storeBody } from "../groups/store.ts";
import type { WorkTools } from "../replica/work.ts";
import { policyVersionOf } from "../weights.ts";
import { bundlesOfBegun } from "./bundles.ts";
import { withVersions } from "./versions.ts";

/** Messages over which one begun group is spread, at most: then it is stored whole again, so that whoever goes on with it reads no more than these. */
export const partsMax = 16;

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

/** What is stored of a group by now. */
interface Saved {
  readonly place: StreamPlace;
  readonly responses: readonly BegunTrajectory[];
  /** Messages over which it is spread. */
  readonly parts: number;
}

/** What a keeper works with. */
export interface KeeperTools extends Omit<StoreTools, "messageBytes"> {
  readonly beats: Pick<WorkTools["beats"], "progress">;
  readonly config: JobConfig;
}

/** Makes the keeper of a chunk. */
export function keeperOf(
  chunk: Chunk,
  { outbox, enveloper, identity, beats, config }: KeeperTools,
  tools: Pick<Sending, "post" | "sent" | "heldBack">,
): BegunKeeper {
  const { id: chunkId, leaseId, lineage } = chunk;
  const { messageBytes } = config.limits;
  const bytesMax = bodyBytesMax(config);
  const stores = { outbox, enveloper, identity, messageBytes };
  const saved = new Map<string, Saved>();
  /** Messages that the broker has not taken yet. */
  let waiting = 0;
  const store = (all: readonly BegunGroup[], onStored: (items: readonly WorkItem[]) => void): number => {
    const groups = all.map((group) =>
      withVersions(isReadable(group, bytesMax) ? group : emptied(group), policyVersionOf),
    );
    const wholeOf = new Map(groups.map((group) => [keyOf(group), group]));
    const bundles = bundlesOfBegun(
      groups.map((group) => partOf(group, saved.get(keyOf(group)))),
      messageBytes,
    );
    const taken = bundles.filter((parts) =>
      storeBody(
        stores,
        { kind: "groups.begun", body: toGroupsBegun(lineage, parts) },
        {
          onStored(place) {
            for (const part of parts) {
              const { responses } = wholeOf.get(keyOf(part)) as BegunGroup;
              saved.set(keyOf(part), savedAfter(part, place, { responses, earlier: saved.get(keyOf(part)) }));
            }
            onStored(chunk.items.flatMap((item) => withPartial(item, parts, saved)));
          },
          onHeldBack: tools.heldBack,
        },
      ),
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

/** What the wire adds to a response and to a segment, at most. */
const [responseBytes, segmentBytes] = [256, 40];

/** False for more than whoever goes on with it would read: an engine drew more than it was asked for. Pure. */
function isReadable({ responses }: BegunGroup, bytesMax: number): boolean {
  const bytes = responses.map(
    ({ responseIds, segments }) => responseBytes + 8 * responseIds.length + segmentBytes * segments.length,
  );
  return bytes.reduce((sum, one) => sum + one, 0) <= bytesMax;
}

/** The same group, to be generated from its beginning. Pure. */
function emptied(group: BegunGroup): BegunGroup {
  const nothing = { responseIds: new Int32Array(0), logprobs: new Float32Array(0), finish: null, segments: [] };
  return { ...group, responses: group.responses.map(({ turn }) => ({ ...nothing, turn })) };
}

const keyOf = ({ step, index }: Pick<BegunGroup, "step" | "index">): string => `${step}.${index}`;

/** What has to be stored of a group: what is new, where the rest is stored and is still the beginning of it. Pure. */
function partOf(group: BegunGroup, saved: Saved | undefined): BegunPart {
  if (!saved || saved.parts >= partsMax || !isBeginning(saved.responses, group.responses)) return wholePart(group);
  const skipped = group.responses.map((_, at) => saved.responses[at]?.responseIds.length ?? 0);
  return partSince(group, { before: saved.place.streamSeq, skipped });
}

/** True when these responses go on where those ended, token by token, or are behind them: what failed and was drawn anew need not. Pure. */
function isBeginning(earlier: readonly BegunTrajectory[], later: readonly BegunTrajectory[]): boolean {
  return (
    earlier.length <= later.length &&
    earlier.every(({ responseIds, logprobs }, at) => {
      const whole = later[at] as BegunTrajectory;
      return isPrefix(responseIds, whole.responseIds) && isPrefix(logprobs, whole.logprobs);
    })
  );
}

function isPrefix(head: Int32Array | Float32Array, whole: Int32Array | Float32Array): boolean {
  const bytes = Buffer.from(whole.buffer, whole.byteOffset, Math.min(head.byteLength, whole.byteLength));
  return bytes.equals(new Uint8Array(head.buffer, head.byteOffset, head.byteLength));
}

function savedAfter(
  { before }: BegunPart,
  place: StreamPlace,
  { responses, earlier }: { readonly responses: readonly BegunTrajectory[]; readonly earlier: Saved | undefined },
): Saved {
  if (before === null || !earlier) return { place, responses, parts: 1 };
  const first = Math.min(firstSeqOf(place), firstSeqOf(earlier.place));
  return { place: placeOf(place.streamSeq, first), responses, parts: earlier.parts + 1 };
}

/** An item that is among what was stored, with where that is; nothing for others. Pure. */
function withPartial(
  item: WorkItem,
  parts: readonly BegunPart[],
  saved: ReadonlyMap<string, Saved>,
): readonly WorkItem[] {
  if (item.purpose === "eval" || !parts.some(({ step, index }) => step === item.step && index === item.index))
    return [];
  const { place, responses } = saved.get(keyOf(item)) as Saved;
  const tokens = responses.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
  return [{ ...item, partial: { ...place, tokens } }];
}
