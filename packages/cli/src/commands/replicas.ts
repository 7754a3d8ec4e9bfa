/** `muster policy | rollout | checkpoint`: one replica, joining a job. */
import {
  checkpointRoleOn,
  hostPorts,
  openRankProgram,
  type Ports,
  policyRoleOn,
  type Role,
  rankOfEnvironment,
  readRankConfig,
  rolloutRoleOn,
} from "@muster/actors";
import type { ReplicaRank } from "@muster/engine";
import { processNameOf, type ReplicaRole } from "@muster/protocol";
import { systemClock } from "@muster/runtime";
import type { Command } from "commander";
import { runRankProcess, runReplicaProcess } from "../composition/actor-process.ts";
import { openAgents } from "../composition/agents.ts";
import { findConnection } from "../composition/connection.ts";
import { openEngines } from "../composition/engines.ts";
import { addressOf } from "../composition/http-address.ts";
import { servingRole } from "../composition/serving.ts";
import { tokenOf } from "../composition/tokens.ts";
import { errors } from "../errors.ts";
import { actorCommand, actorOptions, memberOptions, type Options } from "./actor-options.ts";
import { locationOf } from "./common.ts";

interface ReplicaOptions extends Options {
  readonly serve?: string | true;
  readonly serveTokenFile?: string;
}

/** A role of replicas, and whose engine its processes load. */
interface ReplicaKind {
  readonly roleOn: (ports: Ports) => Role;
  readonly engine: "policy" | "rollout";
}

const replicas: Readonly<Record<ReplicaRole, ReplicaKind>> = {
  policy: { roleOn: policyRoleOn, engine: "policy" },
  rollout: { roleOn: rolloutRoleOn, engine: "rollout" },
  // It computes nothing; what the trainers' engine says of the model goes into each checkpoint.
  checkpoint: { roleOn: checkpointRoleOn, engine: "policy" },
};

/** Where a sampler serves unless it is told otherwise. */
const serveDefault = "127.0.0.1:0";

/** Adds the command of a role. */
export function addReplicaCommand(program: Command, name: ReplicaRole): void {
  const command = actorCommand(program, name)
    .option("--id <id>", `name of the replica (default: ${name}-<random>)`)
    .option("--node <id>", "the node that started it")
    .option("--rank <n>", "of a replica of several processes: which one this is, as its node starts it", "0");
  if (name === "rollout")
    command
      .option("--serve [address]", "also answer requests over HTTP, on host:port (default: any port of loopback)")
      .option("--serve-token-file <file>", "file with the token of those clients (or MUSTER_SERVE_TOKEN)");
  command.action(async (options: ReplicaOptions) => {
    process.exitCode = await joinJob(name, replicas[name], options);
  });
}

async function joinJob(name: string, { roleOn, engine }: ReplicaKind, options: ReplicaOptions) {
  const rank = givenRank(options);
  if (rank && rank.rank > 0) return await runRank(engine, rank, options);
  const joining = memberOptions(options, name);
  const actor = rank ? { ...joining, life: rank.life } : joining;
  const { [engine]: adapter = "embedded", policy = "embedded" } = actor.connection.engines ?? {};
  const engines = await openEngines([adapter], policy);
  const ports = hostPorts(engines, engines.of(adapter).build(), {
    rank: rank ?? undefined,
    agents: openAgents,
    env: process.env,
  });
  if (options.serve === undefined) return await runReplicaProcess(roleOn(ports), actor);
  const { id, connection } = actor;
  const address = addressOf("serve", options.serve === true ? serveDefault : options.serve, serveDefault);
  const token = tokenOf("serve-token-file", options.serveTokenFile, process.env.MUSTER_SERVE_TOKEN);
  const role = servingRole({ ports, roleOn, address, token, id, directory: connection.directory });
  return await runReplicaProcess(role, actor);
}

/** The rank that the node gave to this process in its environment, which is what its command says. @throws MUSTER_ERR_RANK_ALONE */
function givenRank({ rank: said = "0" }: Options): ReplicaRank | null {
  const rank = rankOfEnvironment(process.env);
  if (`${rank?.rank ?? 0}` !== said) throw errors.RankAlone({ said, found: rank === null ? "none" : `${rank.rank}` });
  return rank;
}

/** A process that is not rank 0: it speaks to nobody but the others of its replica. */
async function runRank(role: ReplicaKind["engine"], rank: ReplicaRank, options: Options) {
  const connection = findConnection(locationOf(options), []);
  const config = readRankConfig(connection.directory);
  const engines = await openEngines([config.engine[role].adapter], config.engine.policy.adapter);
  const name = processNameOf(rank.replica, rank.rank);
  const actor = { ...actorOptions(options, name, []), role };
  const { job, directory } = connection;
  const program = { job, directory, engines, role, rank, clock: systemClock() };
  return await runRankProcess((logger) => openRankProgram({ ...program, logger }), actor);
}
