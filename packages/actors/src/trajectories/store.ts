/** Puts groups out of a file into the groups stream of a job. */
import { randomBytes } from "node:crypto";
import {
  createEnveloper,
  encodeMessage,
  type GroupReceipt,
  type JobConfig,
  type TrajectoryGroup,
  toGroupsBatch,
} from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { storeBody } from "../groups/store.ts";
import { receiptOf } from "../rollout/receipts.ts";

/** In whose name imported groups are stored: that of no sampler. */
export const importerId = "trajectories";

const storeMs = 30_000;

/**
 * Stores groups, one after the other.
 *
 * @param transport - With the credentials of a sampler called {@link importerId}.
 * @param version - Weights for which they count where they say none.
 * @returns Where they are, and what they are worth.
 * @throws What the transport throws: MUSTER_ERR_STREAM_FULL when there is no room for them.
 */
export async function storeGroups(
  transport: Pick<Transport, "publish">,
  groups: readonly TrajectoryGroup[],
  { config, version }: { readonly config: JobConfig; readonly version: number },
): Promise<readonly GroupReceipt[]> {
  const incarnation = `i${randomBytes(6).toString("hex")}`;
  const identity = { job: config.job, id: importerId };
  const enveloper = createEnveloper({ ...identity, role: "rollout", incarnation, wallMs: Date.now });
  const receipts: GroupReceipt[] = [];
  for (const group of groups)
    await new Promise<void>((resolve, reject) => {
      const offer: Parameters<typeof storeBody>[0]["outbox"]["offer"] = ({ subject, message, onStored }) => {
        transport
          .publish(subject, encodeMessage(message), { msgId: message.id, timeoutMs: storeMs })
          .then((ack) => onStored?.(ack))
          .catch(reject);
        return true;
      };
      const tools = { outbox: { offer }, enveloper, identity, messageBytes: config.limits.messageBytes };
      storeBody(
        tools,
        { kind: "groups.batch", body: toGroupsBatch([group]) },
        {
          onStored(place) {
            receipts.push(receiptOf(group, { place, version, training: config.training }));
            resolve();
          },
        },
      );
    });
  return receipts;
}
