/** Reads the batch of a step out of the groups stream. */
import { hasCode, messageOf } from "@muster/base";
import {
  type BatchPart,
  type Body,
  bodyBytesMax,
  fromGroupsBatch,
  isMalformed,
  type JobConfig,
  type PiecedBody,
  type Trajectory,
  type TrajectoryGroup,
} from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { errors } from "../errors.ts";
import { fetchBody } from "../groups/fetch.ts";

/** Parts that a vote may name. */
const unreadableMax = 64;

/** What could be read of a batch. */
export interface ReadBatch {
  /** In the order of the batch. */
  readonly groups: readonly TrajectoryGroup[];
  /** Parts whose message is gone, is no batch, has not each named group once, or has numbers that can not be computed with; the first {@link unreadableMax}. */
  readonly unreadable: readonly BatchPart[];
  /** Why the first of them can not be read; empty when all can. */
  readonly cause: string;
}

/** Parts that are fetched at a time: what they hold is in memory twice while they are read. */
const readersMax = 16;

interface Asked {
  readonly step: number;
  readonly part: BatchPart;
  readonly config: JobConfig;
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
  config: JobConfig,
): Promise<ReadBatch> {
  const parts: ReadPart[] = [];
  const waiting = [...run.batch.entries()];
  const read = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [at, part] = next;
      parts[at] = await readPart(transport, { step: run.step, part, config });
    }
  };
  await Promise.all(Array.from({ length: readersMax }, read));
  const bad = parts.flatMap((part) => part.bad ?? []).slice(0, unreadableMax);
  return {
    groups: parts.flatMap(({ groups }) => groups),
    unreadable: bad.map(({ part }) => part),
    cause: bad[0]?.cause ?? "",
  };
}

async function readPart(transport: Transport, asked: Asked): Promise<ReadPart> {
  const { part, config } = asked;
  try {
    const stored = await fetchBody(transport, part.streamSeq, bodyBytesMax(config));
    return { groups: namedGroups(stored, asked) };
  } catch (error) {
    if (placed.some((code) => hasCode(error, code))) return { groups: [], bad: { part, cause: messageOf(error) } };
    if (!isMalformed(error) && !hasCode(error, "MUSTER_ERR_BATCH_INCOMPLETE")) throw error;
    return { groups: [], bad: { part, cause: `message ${part.streamSeq} of the groups stream: ${messageOf(error)}` } };
  }
}

/** Errors about what lies in the stream, or does not any more, that say themselves which message it is. */
const placed = ["MUSTER_ERR_MESSAGE_GONE", "MUSTER_ERR_GROUPS_MALFORMED", "MUSTER_ERR_BATCH_MALFORMED"] as const;

function namedGroups(message: PiecedBody, { step, part, config }: Asked): readonly TrajectoryGroup[] {
  const { streamSeq, groupIds } = part;
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
  for (const { groupId, trajectories } of groups) {
    for (const trajectory of trajectories) {
      const reason = numberFlaw(trajectory, config.model);
      if (reason !== null) throw errors.BatchMalformed({ step, seq: streamSeq, reason: `group ${groupId}: ${reason}` });
    }
  }
  return groups;
}

/** What of a trajectory the model can not take, or the loss; `null` when nothing. Pure. */
export function numberFlaw({ tokens, logprobs }: Trajectory, { vocab, maxContext }: JobConfig["model"]): string | null {
  if (tokens.length > maxContext) return `${tokens.length} tokens, and the context has ${maxContext}`;
  for (const token of tokens) if (token < 0 || token >= vocab) return `token ${token}, and the vocabulary has ${vocab}`;
  for (const logprob of logprobs) if (!Number.isFinite(logprob)) return "a log-probability that is not finite";
  return null;
}
