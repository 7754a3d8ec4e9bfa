/** `muster node`: the replicas of a host, as the controller assigns them. */
import { hostname } from "node:os";
import { findDevices, nodeRole } from "@muster/actors";
import type { Command } from "commander";
import { runReplicaProcess } from "../composition/actor-process.ts";
import { findConnection, writeOwnConnection } from "../composition/connection.ts";
import { musterPath } from "../run/children.ts";
import { actorCommand, memberOptions, type Options } from "./actor-options.ts";
import { capacityOf, devicesOf, locationOf } from "./common.ts";

interface NodeOptions extends Options {
  readonly capacity?: string;
  readonly devices?: string;
}

/** Adds the command. */
export function addNodeCommand(program: Command): void {
  actorCommand(program, "node")
    .option("--id <id>", "name of the node (default: node-<random>)")
    .option("--capacity <counts>", "most replicas by role, e.g. policy=2,rollout=4 (default: as many as are asked)")
    .option(
      "--devices <ids>",
      "devices to give to replicas, e.g. 0,1,2,3 or 0-3, or none (default: the GPUs that are found)",
    )
    .action(async (options: NodeOptions) => {
      process.exitCode = await runNode(options);
    });
}

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

/** A replica finds the job as its node did, with credentials of its own. */
function replicaArguments(options: NodeOptions, role: string, id: string): readonly string[] {
  const { job, runs, nats, connection } = locationOf(options);
  const where = { job, runs, nats, connection };
  const flags = Object.entries(where).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  return [role, "--id", id, ...flags, "--supervised", "--log-level", options.logLevel];
}
