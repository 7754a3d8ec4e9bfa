/** A worker of several processes: each process of the replica starts one. Rank 0's is asked, and tells the others itself what they do. */
import type { ModelNeeds } from "@muster/data";
import type { EngineRole, RankProgram, ReplicaRank } from "../registry/adapter.ts";
import { WorkerLink } from "./link.ts";
import type { WorkerOptions } from "./options.ts";

/** The options of a worker that is told which process of its replica it is, and where rank 0 is met. Pure. */
export function withRank(options: WorkerOptions, rank: ReplicaRank | undefined): WorkerOptions {
  if (!rank) return options;
  const { command } = options;
  const env = {
    ...command.env,
    MUSTER_WORKER_RANK: `${rank.rank}`,
    MUSTER_WORKER_RANKS: `${rank.size}`,
    LOCAL_RANK: `${rank.localRank}`,
    MASTER_ADDR: rank.master.address,
    MASTER_PORT: `${rank.master.port}`,
  };
  return { ...options, command: { ...command, env } };
}

/**
 * Starts the worker of a process that is not rank 0, and watches it: it has no regions, and nothing is asked of it but whether it is there.
 *
 * @throws as {@link WorkerLink.open}
 */
export async function openRankWorker(
  role: EngineRole,
  { command, times, memoryMax }: WorkerOptions,
  { vocab, maxContext, tokenizer }: ModelNeeds,
): Promise<RankProgram> {
  const link = await WorkerLink.open({ command, times, memoryMax, facts: { role, vocab, maxContext, tokenizer } });
  let letGo: () => void = () => {};
  const ended = new Promise<void>((resolve, reject) => {
    letGo = resolve;
    void link.lost.then(reject);
  });
  return {
    ended,
    async close() {
      letGo();
      await link.close();
    },
  };
}
