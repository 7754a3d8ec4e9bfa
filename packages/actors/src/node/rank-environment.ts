/** What a process of a replica of several finds in its environment: who it is among them, in the variables that such programs read. */
import type { ReplicaRank } from "@muster/engine";
import type { RankOrder } from "@muster/protocol";
import { errors } from "../errors.ts";

/** Tells a process of Muster's from one that somebody else gave a rank. */
const lifeVariable = "MUSTER_REPLICA_LIFE";

/** The variables of a rank. Pure. */
export function rankEnvironmentOf({
  id,
  life,
  rank,
  size,
  localRank,
  localSize,
  nodeRank,
  master,
}: Omit<RankOrder, "isDue" | "role">): Readonly<Record<string, string>> {
  return {
    RANK: `${rank}`,
    WORLD_SIZE: `${size}`,
    LOCAL_RANK: `${localRank}`,
    LOCAL_WORLD_SIZE: `${localSize}`,
    NODE_RANK: `${nodeRank}`,
    MASTER_ADDR: master.address,
    MASTER_PORT: `${master.port}`,
    MUSTER_REPLICA: id,
    [lifeVariable]: `${life}`,
  };
}

/**
 * The rank that this process was given; `null` for a process of its own. Pure.
 *
 * @throws MUSTER_ERR_RANK_ENVIRONMENT naming the variable that is not as a node writes it
 */
export function rankOfEnvironment(env: Readonly<Record<string, string | undefined>>): ReplicaRank | null {
  if (env[lifeVariable] === undefined) return null;
  const count = (variable: string): number => {
    const value = env[variable] ?? "";
    if (!/^\d{1,9}$/.test(value)) throw errors.RankEnvironment({ variable, value });
    return Number(value);
  };
  return {
    replica: env.MUSTER_REPLICA ?? "",
    life: count(lifeVariable),
    rank: count("RANK"),
    size: count("WORLD_SIZE"),
    localRank: count("LOCAL_RANK"),
    localSize: count("LOCAL_WORLD_SIZE"),
    nodeRank: count("NODE_RANK"),
    master: { address: env.MASTER_ADDR ?? "", port: count("MASTER_PORT") },
  };
}
