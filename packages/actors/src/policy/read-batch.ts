/** Reads the batch of a step out of the groups stream. */
import { type Body, decodeMessage, fromGroupsBatch, type TrajectoryGroup } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { errors } from "../errors.ts";

/**
 * Fetches the messages of a batch and keeps the groups that it names.
 *
 * @throws MUSTER_ERR_BATCH_MALFORMED, MUSTER_ERR_BATCH_INCOMPLETE, MUSTER_ERR_MESSAGE_GONE
 */
export async function readBatch(
  transport: Transport,
  run: Pick<Body<"step.run">, "step" | "batch">,
): Promise<readonly TrajectoryGroup[]> {
  const parts = await Promise.all(run.batch.map((part) => readPart(transport, run.step, part)));
  const groups = parts.flat();
  const wanted = run.batch.reduce((sum, { groupIds }) => sum + groupIds.length, 0);
  if (groups.length !== wanted)
    throw errors.BatchIncomplete({ step: run.step, missing: wanted - groups.length, wanted });
  return groups;
}

async function readPart(
  transport: Transport,
  step: number,
  { streamSeq, groupIds }: Body<"step.run">["batch"][number],
): Promise<readonly TrajectoryGroup[]> {
  const message = decodeMessage(await transport.fetch("groups", streamSeq));
  if (message.kind !== "groups.batch")
    throw errors.BatchMalformed({ step, seq: streamSeq, reason: `kind ${message.kind}` });
  const groups = fromGroupsBatch(message.body);
  if (typeof groups === "string") throw errors.BatchMalformed({ step, seq: streamSeq, reason: groups });
  const named = new Set(groupIds);
  return groups.filter(({ groupId }) => named.has(groupId));
}
