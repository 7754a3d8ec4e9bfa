/** Reads the batch of a step out of the groups stream. */
import { hasCode, messageOf } from "@muster/base";
import { type BatchPart, type Body, decodeMessage, fromGroupsBatch, type TrajectoryGroup } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { errors } from "../errors.ts";

/** Parts that a vote may name. */
const unreadableMax = 64;

/** What could be read of a batch. */
export interface ReadBatch {
  /** In the order of the batch. */
  readonly groups: readonly TrajectoryGroup[];
  /** Parts whose message is gone, is no batch, or has not each named group once; the first {@link unreadableMax}. */
  readonly unreadable: readonly BatchPart[];
  /** Why the first of them can not be read; empty when all can. */
  readonly cause: string;
}

interface ReadPart {
  readonly groups: readonly TrajectoryGroup[];
  readonly bad?: { readonly part: BatchPart; readonly cause: string };
}

/**
 * Fetches the messages of a batch and keeps the groups that it names. What a message says may be wrong; that it could not be asked for is an
 * error.
 *
 * @throws what the transport throws, but MUSTER_ERR_MESSAGE_GONE
 */
export async function readBatch(
  transport: Transport,
  run: Pick<Body<"step.run">, "step" | "batch">,
): Promise<ReadBatch> {
  const parts = await Promise.all(run.batch.map((part) => readPart(transport, run.step, part)));
  const bad = parts.flatMap((part) => part.bad ?? []).slice(0, unreadableMax);
  return {
    groups: parts.flatMap(({ groups }) => groups),
    unreadable: bad.map(({ part }) => part),
    cause: bad[0]?.cause ?? "",
  };
}

async function readPart(transport: Transport, step: number, part: BatchPart): Promise<ReadPart> {
  const { streamSeq } = part;
  const data = await transport.fetch("groups", streamSeq).catch((error: unknown) => {
    if (hasCode(error, "MUSTER_ERR_MESSAGE_GONE")) return error;
    throw error;
  });
  if (!(data instanceof Uint8Array)) return { groups: [], bad: { part, cause: messageOf(data) } };
  try {
    return { groups: namedGroups(data, step, part) };
  } catch (error) {
    return { groups: [], bad: { part, cause: `message ${streamSeq} of the groups stream: ${messageOf(error)}` } };
  }
}

function namedGroups(data: Uint8Array, step: number, { streamSeq, groupIds }: BatchPart): readonly TrajectoryGroup[] {
  const message = decodeMessage(data);
  if (message.kind !== "groups.batch")
    throw errors.BatchMalformed({ step, seq: streamSeq, reason: `kind ${message.kind}` });
  const stored = fromGroupsBatch(message.body);
  if (typeof stored === "string") throw errors.BatchMalformed({ step, seq: streamSeq, reason: stored });
  const named = new Set(groupIds);
  const groups = stored.filter(({ groupId }) => named.has(groupId));
  const found = new Set(groups.map(({ groupId }) => groupId));
  if (found.size < named.size)
    throw errors.BatchIncomplete({ step, missing: named.size - found.size, wanted: named.size });
  if (groups.length > named.size)
    throw errors.BatchMalformed({ step, seq: streamSeq, reason: "it has one group more than once" });
  return groups;
}
