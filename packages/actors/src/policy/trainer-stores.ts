/** The version stores of one process of a trainer, for the whole state or a shard of it. */

import { PartStores } from "../part-stores.ts";
import type { Ports } from "../ports.ts";
import { deltaOf, type Puller } from "../weights.ts";

/** Whose stores they are, and what they have room for. */
interface TrainerStores extends Puller {
  readonly weightsBytes: number;
  readonly optimizerBytes: number;
  /** Sizes of what is published beside the weights. */
  readonly textBytes: readonly number[];
}

/** @throws what the port to version stores throws; nothing is open then */
export async function openTrainerStores(ports: Pick<Ports, "versionStore">, of: TrainerStores): Promise<PartStores> {
  const { job, member, dataKey, config, weightsBytes, optimizerBytes, textBytes } = of;
  const { socketDirectory: socketDir, tcpHost, slots } = config.data;
  const sizes = [
    { name: "weights", bytes: weightsBytes },
    { name: "optimizer", bytes: optimizerBytes },
  ] as const;
  return await PartStores.open(ports, sizes, {
    ...{ key: dataKey, job, member, socketDir, tcpHost, slots, textBytes },
    delta: deltaOf(config),
  });
}
