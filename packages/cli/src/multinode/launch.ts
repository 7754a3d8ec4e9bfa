/** Ties `muster run --num-nodes` together: a worker from its command line, and what a master's run has besides. */
import { resolve } from "node:path";
import type { Clock, Logger } from "@muster/base";
import { isLoopback, shownHost } from "@muster/http";
import type { JobConfig, ReplicaRole } from "@muster/protocol";
import { type ExitCode, exitCodes, type LogLevel } from "@muster/runtime";
import { durationOf } from "../commands/common.ts";
import { connectionText, credentialsOf, type JobConnection } from "../composition/connection.ts";
import { pasted } from "../composition/pasted.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { masterAddress, type OwnAddress } from "./address.ts";
import { type Master, openMaster } from "./master.ts";
import { type Launch, type MultiNodeOptions, masterOf, saidIn, saidOf, sharesOf } from "./options.ts";
import type { RankRoster } from "./ranks-file.ts";
import { runWorker } from "./run-worker.ts";
import { givenToken, masterToken } from "./token.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Options of a rank, as they came. */
export type RankOptions = Parameters<typeof saidIn>[1] & { readonly runs: string; readonly devices?: string };

/** Runs another rank than the master until the job is over. */
export async function runRank(
  launch: Launch,
  options: RankOptions & { readonly quiet?: boolean },
  { env, logLevel }: { readonly env: Environment; readonly logLevel: LogLevel },
): Promise<ExitCode> {
  const { host, port } = masterOf(options, env);
  if (host === null)
    throw errors.OptionInvalid({
      option: "master-addr",
      value: "nothing",
      reason: "is given; say where the master runs, here or in MASTER_ADDR",
    });
  const { devices } = options;
  const say = (line: string): void => void process.stderr.write(`muster: ${line}\n`);
  return await untilInterrupted(async (signal) => {
    const end = await runWorker({
      ...{ host, port, signal, logLevel, rank: launch.rank, runs: resolve(options.runs) },
      token: givenToken({ file: options.joinTokenFile, env }),
      said: saidIn(launch, options),
      timeoutMs: durationOf("join-timeout", options.joinTimeout),
      ...(devices === undefined ? {} : { devices }),
      onNews: options.quiet ? () => {} : say,
    });
    if (!options.quiet || end.exitCode !== exitCodes.ok) say(end.words);
    return end.exitCode;
  });
}

/** What a master's run has besides that of one host. */
export interface MasterPlan {
  /** Arguments of this host's node. */
  readonly nodeArgs: readonly string[];
  /** Lets ranks in, as soon as there is a broker. */
  open(run: MasterRun): Promise<Pick<Master, "end">>;
}

/** A run that ranks can join. */
export interface MasterRun {
  readonly directory: string;
  /** How a process of this host reaches the job. */
  readonly connection: Omit<JobConnection, "source">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly note: (line: string) => void;
  readonly onChange: (ranks: RankRoster) => void;
}

/** Roles that another rank may run. */
const farRoles = ["node", "policy", "rollout"];

/** The network in which ranks find each other; `null` on one host, or where an address has none. */
export function networkOf({ address, network }: OwnAddress): string | null {
  return isLoopback(address) || /\/(32|128)$/.test(network) || !network.includes("/") ? null : network;
}

/** The address at which this host is the master. @throws MUSTER_ERR_OPTION_INVALID */
export async function ownAddressOf(options: MultiNodeOptions, env: Environment): Promise<OwnAddress> {
  return await masterAddress(masterOf(options, env).host);
}

/** Plans the master of a job. @throws MUSTER_ERR_OPTION_INVALID for shares that leave a rank without work */
export function masterPlanOf(
  launch: Launch,
  options: RankOptions,
  { config, env, own }: { readonly config: JobConfig; readonly env: Environment; readonly own: OwnAddress },
): MasterPlan {
  const shares = sharesOf(launch, config.replicas);
  const { port } = masterOf(options, env);
  if (config.data.tcpHost === null && !isLoopback(own.address))
    throw errors.OptionInvalid({
      option: "master-addr",
      value: own.address,
      reason: `has no network of its own (${own.network}); name the one that all ranks have an address in, for example --set data.tcp_host=10.0.0.0/8`,
    });
  return {
    nodeArgs: ["--capacity", capacityText(shares[0])],
    async open({ directory, connection, clock, logger, note, onChange }) {
      const token = masterToken({ file: options.joinTokenFile, env }, resolve(directory, "join.token"));
      const broker = brokerOf(connection.url);
      const credentials = Object.fromEntries(
        farRoles.map((role) => [role, credentialsOf({ ...connection, source: directory }, role)]),
      );
      const master = await openMaster({
        ...{ host: own.address, port, token: token.text, nodes: launch.nodes, broker, clock, logger, onChange },
        said: {
          ...saidOf(config),
          ...saidIn(launch, options),
          "rank-weights": launch.weights.join(","),
          "rl-phase": options.rlPhase ?? "both",
        },
        admit: (rank) => ({
          job: config.job,
          connection: connectionText({ ...connection, credentials }),
          tunnel: broker !== null,
          capacity: capacityText(shares[rank]),
        }),
        onNews: note,
      });
      const where = [`MASTER_ADDR=${own.address}`, `MASTER_PORT=${master.port}`];
      const args = ["--num-nodes", `${launch.nodes}`, "--rank-weights", launch.weights.join(",")];
      const way = [...token.way.env, ...where, pasted("run", ...args, ...token.way.args, "--worker")].join(" ");
      note(`ranks join at ${shownHost(own.address)}:${master.port}; on each other host: ${way} RANK`);
      return master;
    },
  };
}

function capacityText(share: Readonly<Record<ReplicaRole, number>> | undefined): string {
  return Object.entries(share ?? {})
    .map(([role, count]) => `${role}=${count}`)
    .join(",");
}

/** The broker, where only this host reaches it. */
function brokerOf(url: string): { readonly host: string; readonly port: number } | null {
  const { hostname = "", port = "" } = url.includes(",") ? {} : (URL.parse(url) ?? {});
  return isLoopback(hostname.replace(/^\[(.*)\]$/, "$1"))
    ? { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port) }
    : null;
}
