/** What a process does that is not rank 0 of its replica: the engine's own code for ranks, with its way to the data plane. */
import type { Clock, Logger } from "@muster/base";
import { needsOfJob } from "@muster/data";
import type { EngineRegistry, EngineRole, RankProgram, ReplicaRank } from "@muster/engine";
import { readRankConfig, readRankKey } from "../node/rank-config.ts";
import { hostPorts } from "../ports.ts";
import { rankShards } from "./rank-shards.ts";
import { RankTrainer } from "./rank-trainer.ts";

/** Which process of which replica. */
export interface RankProgramOptions {
  readonly job: string;
  /** Folder of the job's run on this host. */
  readonly directory: string;
  readonly engines: EngineRegistry;
  readonly role: EngineRole;
  readonly rank: ReplicaRank;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Opens it. @throws what the adapter throws; MUSTER_ERR_RANK_CONFIG */
export async function openRankProgram(options: RankProgramOptions): Promise<RankProgram> {
  const { job, directory, engines, role, rank, clock, logger } = options;
  const config = readRankConfig(directory);
  const needs = needsOfJob(config);
  const cut = engines.rankCutOf(role, config, needs);
  if (!cut) return await engines.openRank(role, config, needs, { rank });
  const ports = hostPorts(engines, engines.of(config.engine[role].adapter).build());
  ports.network(config.network);
  const dataKey = readRankKey(directory);
  const { replica } = rank;
  const own = { ports, clock, logger, replica, rank: rank.rank, cut, job, dataKey, config };
  if (role === "policy") {
    const training = new RankTrainer(own);
    return closingWith(await engines.openRank(role, config, needs, { rank, training }), training);
  }
  const shards = rankShards({ ...own, trainers: ports.trainerCut(config) });
  return await engines.openRank(role, config, needs, { rank, shards });
}

/** A process that ends gives its sockets and memory back, too. */
function closingWith(program: RankProgram, training: RankTrainer): RankProgram {
  return { ended: program.ended.finally(() => training.close()), close: () => program.close() };
}
