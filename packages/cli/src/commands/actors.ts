/** `muster policy | rollout | checkpoint | controller`: one actor, joining a job. */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import {
  checkpointRoleOn,
  type Doors,
  findDevices,
  hostDoors,
  nodeRole,
  openRankProgram,
  policyRoleOn,
  type Role,
  rankOfEnvironment,
  readRankConfig,
  rolloutRoleOn,
} from "@muster/actors";
import { messageOf } from "@muster/base";
import type { ReplicaRank } from "@muster/engine";
import { checkId, jobConfigSchema, processNameOf, type ReplicaRole } from "@muster/protocol";
import { systemClock } from "@muster/runtime";
import type { Command } from "commander";
import {
  type ActorOptions,
  runControllerProcess,
  runRankProcess,
  runReplicaProcess,
} from "../composition/actor-process.ts";
import { openAgents } from "../composition/agents.ts";
import { connectionRoles, findConnection, writeOwnConnection } from "../composition/connection.ts";
import { dataKeyOf } from "../composition/data-key.ts";
import { openEngines } from "../composition/engines.ts";
import { addressOf } from "../composition/http-address.ts";
import { servingRole } from "../composition/serving.ts";
import { tokenOf } from "../composition/tokens.ts";
import { errors } from "../errors.ts";
import { describeRun, sayRun } from "../job/run-state.ts";
import { musterPath } from "../run/children.ts";
import {
  capacityOf,
  devicesOf,
  durationOf,
  type LocationOptions,
  levelOf,
  locationOf,
  portOf,
  withLocation,
  withLogLevel,
} from "./common.ts";

interface Options extends LocationOptions {
  readonly id?: string;
  readonly logLevel: string;
  readonly metricsPort?: string;
  readonly json?: boolean;
  readonly supervised?: boolean;
  readonly grace: string;
  readonly node?: string;
  readonly rank?: string;
}

interface ReplicaOptions extends Options {
  readonly serve?: string | true;
  readonly serveTokenFile?: string;
}

interface ControllerOptions extends Options {
  readonly standby?: boolean;
  readonly storeLost?: boolean;
  readonly silence: string;
}

interface NodeOptions extends Options {
  readonly capacity?: string;
  readonly devices?: string;
}

/** A role of replicas, and whose engine its processes load. */
interface ReplicaKind {
  readonly roleOn: (doors: Doors) => Role;
  readonly engine: "policy" | "rollout";
  readonly says: string;
}

const replicas: Readonly<Record<ReplicaRole, ReplicaKind>> = {
  policy: { roleOn: policyRoleOn, engine: "policy", says: "start a policy replica (trainer) and join a job" },
  rollout: { roleOn: rolloutRoleOn, engine: "rollout", says: "start a rollout replica (sampler) and join a job" },
  // It computes nothing; what the trainers' engine says of the model goes into each checkpoint.
  checkpoint: { roleOn: checkpointRoleOn, engine: "policy", says: "start a checkpoint actor and join a job" },
};

/** Where a sampler serves unless it is told otherwise. */
const serveDefault = "127.0.0.1:0";

/** True for the command of a role of replicas. */
export const isReplica = (command: string): boolean => Object.hasOwn(replicas, command);

/** Adds the actor commands. */
export function addActorCommands(program: Command): void {
  for (const [name, replica] of Object.entries(replicas)) {
    const command = actorCommand(program, name, replica.says)
      .option("--id <id>", `name of the replica (default: ${name}-<random>)`)
      .option("--node <id>", "the node that started it")
      .option("--rank <n>", "of a replica of several processes: which one this is, as its node starts it", "0");
    if (name === "rollout")
      command
        .option("--serve [address]", "also answer requests over HTTP, on host:port (default: any port of loopback)")
        .option("--serve-token-file <file>", "file with the token of those clients (or MUSTER_SERVE_TOKEN)");
    command.action(async (options: ReplicaOptions) => {
      process.exitCode = await joinJob(name, replica, options);
    });
  }
  actorCommand(program, "node", "run the replicas that the controller assigns to this host")
    .option("--id <id>", "name of the node (default: node-<random>)")
    .option("--capacity <counts>", "most replicas by role, e.g. policy=2,rollout=4 (default: as many as are asked)")
    .option(
      "--devices <ids>",
      "devices to give to replicas, e.g. 0,1,2,3 or 0-3, or none (default: the GPUs that are found)",
    )
    .action(async (options: NodeOptions) => {
      process.exitCode = await runNode(options);
    });
  actorCommand(program, "controller", "start the controller of a job, or take a job over")
    .option("--id <id>", "name of its log", "controller")
    .option("--standby", "wait until the controller that acts is gone, then take over")
    .option("--store-lost", "the broker's store is lost for good: go on from the newest checkpoint")
    .option("--silence <duration>", "with --standby: how long nobody may have acted", "5s")
    .action(async (options: ControllerOptions) => {
      process.exitCode = await control(options);
    });
}

function actorCommand(program: Command, name: string, says: string): Command {
  return withLogLevel(withLocation(program.command(name).description(says)))
    .option("--metrics-port <port>", "serve /metrics and /healthz on 127.0.0.1; 0 for any free port")
    .option("--grace <duration>", "how long leaving may take before the process ends anyway", "30s")
    .option("--json", "log lines of JSON on standard error, on a terminal too")
    .option("--supervised", "started by a supervisor that holds standard input open");
}

async function joinJob(name: string, { roleOn, engine }: ReplicaKind, options: ReplicaOptions) {
  const rank = givenRank(options);
  if (rank && rank.rank > 0) return await runRank(engine, rank, options);
  const joining = memberOptions(options, name);
  const actor = rank ? { ...joining, life: rank.life } : joining;
  const { [engine]: adapter = "embedded", policy = "embedded" } = actor.connection.engines ?? {};
  const engines = await openEngines([adapter], policy);
  const doors = hostDoors(engines, engines.of(adapter).build(), {
    rank: rank ?? undefined,
    agents: openAgents,
    env: process.env,
  });
  if (options.serve === undefined) return await runReplicaProcess(roleOn(doors), actor);
  const { id, connection } = actor;
  const address = addressOf("serve", options.serve === true ? serveDefault : options.serve, serveDefault);
  const token = tokenOf("serve-token-file", options.serveTokenFile, process.env.MUSTER_SERVE_TOKEN);
  const role = servingRole({ doors, roleOn, address, token, id, directory: connection.directory });
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

/** Ends of a job that are for good; one that was interrupted may go on under another process. */
const overStates: ReadonlySet<string> = new Set(["done", "stopped", "failed"]);

/** How long a process may take that is not assigned to its node any more. */
const leaveMs = 5_000;

async function runNode(options: NodeOptions) {
  const capacity = capacityOf(options.capacity);
  const named = devicesOf(options.devices);
  const actor = memberOptions(options, "node");
  const devices = named ?? (await findDevices({ env: process.env }));
  let killNow = (): void => {};
  // Whatever way this process ends by itself, its replicas end with it; when it is killed, their standard input closes.
  process.on("exit", () => killNow());
  const role = nodeRole({
    host: hostname(),
    capacity,
    devices,
    directory: actor.connection.directory,
    commandOf: (replicaRole, id, rank) => {
      const found = findConnection(locationOf(options), [replicaRole]);
      // Only rank 0 speaks to the job.
      const own = rank === 0 ? writeOwnConnection(found, replicaRole, id) : null;
      const connection = own ?? options.connection;
      const way = { ...options, job: found.job, ...(connection === undefined ? {} : { connection }) };
      const where = [...replicaArguments(way, replicaRole, id), "--node", actor.id];
      return [process.execPath, musterPath(), ...where, ...(rank > 0 ? ["--rank", `${rank}`] : [])];
    },
    env: process.env,
    graceMs: leaveMs,
    onKeeper: (keeper) => {
      killNow = () => keeper.killNow();
    },
  });
  return await runReplicaProcess(role, actor);
}

/** Options of a process that joins a job, which must not be over. @throws MUSTER_ERR_JOB_OVER */
function memberOptions(options: Options, role: string): ActorOptions {
  const id = options.id ?? findConnection(locationOf(options), [role]).credentials[role]?.replica?.id;
  const actor = actorOptions(options, checkId("id", id ?? randomId(role)), [role]);
  const run = describeRun(actor.connection.directory, actor.connection.job);
  if (overStates.has(run.state)) throw errors.JobOver({ run: sayRun(run) });
  return actor;
}

/** A replica finds the job as its node did, with credentials of its own. */
function replicaArguments(options: NodeOptions, role: string, id: string): readonly string[] {
  const { job, runs, nats, connection } = locationOf(options);
  const where = { job, runs, nats, connection };
  const flags = Object.entries(where).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  return [role, "--id", id, ...flags, "--supervised", "--log-level", options.logLevel];
}

async function control(options: ControllerOptions) {
  // Who is told of ended connections compares the users of all roles.
  const actor = actorOptions(options, checkId("id", options.id ?? "controller"), connectionRoles);
  const path = join(actor.connection.directory, "job.json");
  return await runControllerProcess({
    ...actor,
    config: readJobConfig(path),
    dataKey: dataKeyOf(actor.connection.directory),
    isStoreLost: options.storeLost === true,
    standbyMs: options.standby ? durationOf("silence", options.silence) : null,
  });
}

function actorOptions(options: Options, id: string, roles: readonly string[]): ActorOptions {
  return {
    connection: findConnection(locationOf(options), roles),
    id,
    ...(options.node === undefined ? {} : { node: checkId("node", options.node) }),
    logLevel: levelOf(options.logLevel),
    logTo: options.supervised === true ? "file" : options.json === true ? "stderr" : "people",
    metricsPort: options.metricsPort === undefined ? null : portOf("metrics-port", options.metricsPort),
    supervised: options.supervised === true,
    graceMs: durationOf("grace", options.grace),
  };
}

function readJobConfig(path: string) {
  try {
    return jobConfigSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}

function randomId(role: string): string {
  return `${role}-${Math.random().toString(36).slice(2, 8)}`;
}
