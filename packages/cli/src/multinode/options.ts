/** The options of a launcher for several nodes: how many there are, which one this is, and what of a job they say. Pure. */
import { statSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { largestRemainder } from "@muster/machines";
import { checkId, type JobConfig, perRole, type ReplicaRole, type RlPhase, rlPhases } from "@muster/protocol";
import { type Command, Option } from "commander";
import { countOf, portOf } from "../commands/common.ts";
import { runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { rankOf, weightsOf } from "../job/rank-options.ts";
import type { PhaseOptions } from "../run/phase-keeper.ts";

/** Options of `muster run` for several nodes, and those of a job by the names that such launchers give them. */
export interface MultiNodeOptions {
  readonly numNodes?: string;
  readonly rankWeights?: string;
  readonly master?: boolean;
  readonly worker?: string;
  readonly masterAddr?: string;
  readonly masterPort?: string;
  readonly joinTokenFile?: string;
  readonly joinTimeout: string;
  readonly evalInterval?: string;
  readonly rolloutSplit?: "both" | "train-only";
  readonly rlPhase?: RlPhase;
  readonly trajectories?: string;
  readonly quorum?: string;
  readonly dataPath?: string;
  readonly logPath?: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Several nodes, and which of them this process is. */
export interface Launch {
  readonly nodes: number;
  /** One for each rank. */
  readonly weights: readonly number[];
  /** 0 is the master. */
  readonly rank: number;
}

/** More nodes than this are started one by one, with `muster node`. */
const nodesMax = 256;

/** Samplers that weights ask for by themselves, at most. */
const samplersMax = 1_024;

/** Adds the options. */
export function withMultiNode(command: Command): Command {
  return command
    .option("--num-nodes <n>", "hosts of the job, each started with this command; rank 0 is the master")
    .option("--rank-weights <list>", "shares of the replicas, one for each rank, e.g. 2,1,1 (default: all alike)")
    .option("--master", "with --num-nodes: this is rank 0, which runs the controller")
    .option("--worker <rank>", "with --num-nodes: this is another rank (default: RANK, else NODE_RANK)")
    .option("--master-addr <address>", "address of the master (default: MASTER_ADDR)")
    .option("--master-port <port>", "port at which ranks join the master (default: MASTER_PORT, else 29500)")
    .option(
      "--join-token-file <file>",
      "file with the join token of all ranks, which the master makes where there is none",
    )
    .option("--join-timeout <duration>", "how long a worker waits for a master that is not there", "30m")
    .option("--eval-interval <steps>", "steps between evaluations, as evaluation.every_steps")
    .addOption(new Option("--rollout-split <what>", "train-only for no evaluations").choices(["both", "train-only"]))
    .addOption(
      new Option("--rl-phase <what>", "both, only rollout (sample), or only update (train what is sampled)").choices(
        rlPhases,
      ),
    )
    .option("--trajectories <folder>", "with --rl-phase both or update: files of groups to train")
    .option(
      "--quorum <share>",
      "with --rl-phase update: share of a step's groups that is enough, e.g. 0.8 (default: 1)",
    )
    .option("--data-path <path>", "prompts: a file, or a folder with the splits train and test, as prompts.train")
    .option("--log-path <folder>", "folder of this run; the same one resumes it, as --runs and --job");
}

/** The nodes that the options ask for; `null` for a job of this host alone. @throws MUSTER_ERR_OPTION_INVALID */
export function launchOf(options: MultiNodeOptions, env: Environment): Launch | null {
  const { numNodes, rankWeights, master, worker } = options;
  if (numNodes === undefined) {
    const said = { "rank-weights": rankWeights, master, worker, "master-addr": options.masterAddr };
    for (const [option, value] of Object.entries({ ...said, "join-token-file": options.joinTokenFile }))
      if (value !== undefined)
        throw errors.OptionInvalid({
          option,
          value: `${value}`,
          reason: "goes with --num-nodes, for example --num-nodes 3",
        });
    return null;
  }
  const nodes = countOf("num-nodes", numNodes, { min: 1, max: nodesMax });
  const weights = rankWeights === undefined ? Array<number>(nodes).fill(1) : weightsOf(rankWeights, nodes);
  if (master && worker !== undefined)
    throw errors.OptionInvalid({
      option: "worker",
      value: worker,
      reason: "and --master are two ranks; give one of them",
    });
  const rank = master ? 0 : rankOf({ option: "worker", said: worker, ranks: nodes, env });
  if (worker !== undefined && rank === 0)
    throw errors.OptionInvalid({
      option: "worker",
      value: worker,
      reason: `is the master; use --master, or 1 to ${nodes - 1}`,
    });
  return nodes === 1 ? null : { nodes, weights, rank };
}

/** What this command does of the job. @throws MUSTER_ERR_OPTION_INVALID */
export function phaseOf({ rlPhase: phase = "both", trajectories, quorum }: MultiNodeOptions): PhaseOptions {
  const share = quorum === undefined ? null : Number(quorum);
  if (share !== null && !(share > 0 && share <= 1))
    throw errors.OptionInvalid({ option: "quorum", value: quorum ?? "", reason: "is no share; use 0.01 to 1" });
  if (share !== null && phase !== "update")
    throw errors.OptionInvalid({ option: "quorum", value: quorum ?? "", reason: "goes with --rl-phase update" });
  if (trajectories !== undefined && phase === "rollout")
    throw errors.OptionInvalid({
      option: "trajectories",
      value: trajectories,
      reason: "is what an update trains; a rollout writes its files to the folder trajectories of the run",
    });
  if (trajectories !== undefined && !statSync(trajectories, { throwIfNoEntry: false })?.isDirectory())
    throw errors.OptionInvalid({
      option: "trajectories",
      value: trajectories || '""',
      reason: "is no folder; name one that a rollout or muster trajectories export wrote",
    });
  return { phase, trajectories: trajectories === undefined ? null : resolve(trajectories), quorum: share };
}

/** Keys of the job file that the options set, as flags. @throws MUSTER_ERR_OPTION_INVALID */
export function jobFlagsOf(options: MultiNodeOptions): Record<string, string | number> {
  const { evalInterval, rolloutSplit, dataPath } = options;
  const isTrainOnly = rolloutSplit === "train-only";
  if (isTrainOnly && evalInterval !== undefined)
    throw errors.OptionInvalid({
      option: "eval-interval",
      value: evalInterval,
      reason: "is for evaluations, which --rollout-split train-only leaves out; give one of them",
    });
  const every = evalInterval === undefined ? null : countOf("eval-interval", evalInterval, { min: 1, max: 1_000_000 });
  const interval = isTrainOnly ? 0 : every;
  return { ...(interval === null ? {} : { "evaluation.every_steps": interval }), ...promptsOf(dataPath, isTrainOnly) };
}

function promptsOf(path: string | undefined, isTrainOnly: boolean): Record<string, string> {
  if (path === undefined) return {};
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found)
    throw errors.OptionInvalid({
      option: "data-path",
      value: path || '""',
      reason: "is not there; name a .jsonl or .parquet file, or a folder with the splits train and test",
    });
  const train = resolve(path);
  return { "prompts.train": train, ...(found.isDirectory() && !isTrainOnly ? { "prompts.held_out": train } : {}) };
}

/** Folder and name of the run, where one path says both. @throws MUSTER_ERR_OPTION_INVALID */
export function placeOf<T extends { readonly runs: string; readonly job?: string }>(
  options: T & Pick<MultiNodeOptions, "logPath">,
): T {
  const { logPath, runs, job } = options;
  if (logPath === undefined) return options;
  const other = job !== undefined ? "job" : runs === runsDefault ? null : "runs";
  if (other !== null)
    throw errors.OptionInvalid({
      option: other,
      value: options[other] ?? "",
      reason: "is in --log-path; give one of them",
    });
  const path = resolve(logPath);
  return { ...options, runs: dirname(path), job: checkId("log-path", basename(path)) };
}

/** Sampler replicas that weights share out exactly: the fewest. @throws MUSTER_ERR_OPTION_INVALID */
export function samplersOf(weights: readonly number[]): number {
  const divisor = weights.reduce(commonDivisor);
  const sum = weights.reduce((total, weight) => total + weight / divisor, 0);
  if (sum <= samplersMax) return sum;
  const reason = `needs ${sum} rollout replicas to share out exactly; say how many there are with --rollout`;
  throw errors.OptionInvalid({ option: "rank-weights", value: weights.join(",").slice(0, 80), reason });
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));

/** Replicas of each rank, by weight; files are kept on the master alone. @throws MUSTER_ERR_OPTION_INVALID when a rank gets no sampler. */
export function sharesOf(
  { weights }: Launch,
  replicas: Readonly<Record<ReplicaRole, number>>,
): readonly Readonly<Record<ReplicaRole, number>>[] {
  const [rollout, policy] = [largestRemainder(replicas.rollout, weights), largestRemainder(replicas.policy, weights)];
  const without = rollout.indexOf(0);
  if (without >= 0)
    throw errors.OptionInvalid({
      option: "rank-weights",
      value: weights.join(","),
      reason: `gives rank ${without} none of ${replicas.rollout} rollout replicas; use --rollout ${samplersOf(weights)}, or other weights`,
    });
  return weights.map((_, rank) => ({
    ...perRole(() => 0),
    ...{ policy: policy[rank] ?? 0, rollout: rollout[rank] ?? 0, checkpoint: rank === 0 ? replicas.checkpoint : 0 },
  }));
}

/** Host and port of the master, where this is said. @throws MUSTER_ERR_OPTION_INVALID */
export function masterOf(
  options: MultiNodeOptions,
  env: Environment,
): { readonly host: string | null; readonly port: number } {
  const host = options.masterAddr ?? env.MASTER_ADDR;
  if (host !== undefined && !/^[\w.:-]{1,253}$/.test(host))
    throw errors.OptionInvalid({
      option: "master-addr",
      value: host.slice(0, 80) || '""',
      reason: "is no address or name of a host, for example 10.0.0.1",
    });
  const port = portOf("master-port", options.masterPort ?? env.MASTER_PORT ?? `${portDefault}`);
  return { host: host ?? null, port };
}

/** That of launchers of training on several nodes. */
const portDefault = 29_500;

/** What was said on a command line that all ranks say alike, as far as it was said. */
export function saidIn(
  launch: Launch,
  options: MultiNodeOptions & Readonly<Partial<Record<(typeof jobOptions)[number], string>>>,
): Readonly<Record<string, string>> {
  const { evalInterval, rolloutSplit, dataPath, rankWeights, rlPhase } = options;
  const all: Readonly<Record<string, string | undefined>> = {
    ...{
      "num-nodes": `${launch.nodes}`,
      "rank-weights": rankWeights === undefined ? undefined : launch.weights.join(","),
    },
    ...{ "eval-interval": evalInterval, "rollout-split": rolloutSplit, "rl-phase": rlPhase },
    "data-path": dataPath === undefined ? undefined : resolve(dataPath),
    ...Object.fromEntries(jobOptions.map((name) => [name, options[name]])),
  };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

const jobOptions = ["seed", "steps", "mode", "policy", "rollout", "checkpoint"] as const;

/** The same of the job itself: a rank may say what the master left out, as it does when it goes on with a run. Pure. */
export function saidOf({
  replicas,
  evaluation: { everySteps },
  prompts,
  ...job
}: Pick<JobConfig, "seed" | "steps" | "mode" | "replicas" | "evaluation" | "prompts">): Readonly<
  Record<string, string>
> {
  const { policy, rollout, checkpoint } = replicas;
  return {
    ...{ seed: `${job.seed}`, steps: `${job.steps}`, mode: job.mode },
    ...{ policy: `${policy}`, rollout: `${rollout}`, checkpoint: `${checkpoint}` },
    ...(everySteps === 0 ? {} : { "eval-interval": `${everySteps}` }),
    "rollout-split": everySteps === 0 ? "train-only" : "both",
    ...(prompts ? { "data-path": prompts.train } : {}),
  };
}

/** What a rank said otherwise than the master; `null` when they agree. What a rank leaves out is the master's. Pure. */
export function differenceOf(
  master: Readonly<Record<string, string>>,
  said: Readonly<Record<string, string>>,
): string | null {
  for (const [name, value] of Object.entries(said))
    if (master[name] !== value)
      return `--${name} is ${value} here and ${master[name] ?? "left out"} at the master; say the same, or leave it out here`;
  return null;
}
