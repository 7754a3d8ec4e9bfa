/** The engines of a program by the names that jobs give them, and what they say of a job: alone, and with each other. */
import type { ModelNeeds } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { SectionConversion } from "@muster/tensors";
import { lossNeedsOf } from "../algorithms/loss-needs.ts";
import type { PolicyEngine, RolloutEngine } from "../engine.ts";
import { errors } from "../errors.ts";
import type {
  EngineAdapter,
  EngineDescription,
  EngineOpening,
  EngineProblem,
  EngineRole,
  RankProgram,
  ReplicaRank,
} from "./adapter.ts";
import { checkOpened } from "./check-opened.ts";
import { type Contradiction, configContradictions, type DeterminismLevel } from "./contradictions.ts";
import { type EngineTable, tableOfSchema } from "./engine-table.ts";
import { faultOfCut, type RankCut, type RankShards, rankCutOf } from "./rank-layout.ts";
import type { RankTraining } from "./rank-training.ts";
import { shardProblems } from "./shard-problems.ts";
import { conversionOf, type FormatDifference, formatDifference } from "./weight-format.ts";

/** What is known of a task when its model is asked for; the digest of the tokenizer may be absent. */
type TaskNeeds = Omit<ModelNeeds, "tokenizer"> & { readonly tokenizer?: string };

/** Which process of a replica of several is opened, and how it comes to its part of the weights. */
export interface RankOpening {
  readonly rank: ReplicaRank;
  readonly shards?: RankShards;
  readonly training?: RankTraining;
}

/** The engines that one program knows. */
export class EngineRegistry {
  readonly #adapters: ReadonlyMap<string, EngineAdapter>;

  readonly #known: readonly string[];

  /**
   * @param adapters - By the name in a job file: of a built-in one, or the absolute path of its module.
   * @param known - Names that errors tell, where not all that are known are loaded.
   */
  constructor(adapters: Iterable<readonly [string, EngineAdapter]>, known?: readonly string[]) {
    this.#adapters = new Map(adapters);
    this.#known = known ?? [...this.#adapters.keys()];
  }

  /** The adapter of this name. @throws MUSTER_ERR_ENGINE_UNKNOWN naming the known ones */
  of(name: string): EngineAdapter {
    const adapter = this.#adapters.get(name);
    if (!adapter) throw errors.EngineUnknown({ name, known: this.#known.join(", ") });
    return adapter;
  }

  /** The table of an engine in a job file. @throws as {@link of} */
  tableOf(name: string): EngineTable {
    const { table, kind, schema } = this.of(name);
    return tableOfSchema(table ?? `engine.${kind}`, schema);
  }

  /** What the engine of a role says of itself in this job. */
  describe(role: EngineRole, engine: JobConfig["engine"], task: TaskNeeds): EngineDescription {
    const { adapter, options } = engine[role];
    return this.of(adapter).describe(options, needsOf(task), this.#trainerOf(role, engine, task));
  }

  /** Vocabulary and context of the job's model: those of its trainers. */
  modelOf(engine: JobConfig["engine"], task: TaskNeeds): JobConfig["model"] {
    const { vocab, maxContext } = this.describe("policy", engine, task);
    return { vocab, maxContext };
  }

  /** What stands against this job, one sentence each; none when its engines can run it. */
  problemsOf(config: JobConfig, task: TaskNeeds): readonly EngineProblem[] {
    const { policy, rollout } = config.engine;
    const roles = (["policy", "rollout"] as const).flatMap((role) => this.#roleProblem(role, config.engine[role]));
    if (roles.length > 0) return roles;
    const isSame = policy.adapter === rollout.adapter;
    const own = [policy, ...(isSame ? [] : [rollout])].flatMap(({ adapter, options }) =>
      this.of(adapter).check(options, config),
    );
    if (own.length > 0) return own;
    const alone = (["policy", "rollout"] as const).flatMap((role) => this.#processProblem(role, config));
    if (alone.length > 0) return alone;
    const trainer = this.describe("policy", config.engine, task);
    const sampler = this.describe("rollout", config.engine, task);
    return [
      ...modelProblems(trainer, task),
      ...traitProblems(trainer, sampler, config),
      ...formatProblems(trainer, sampler, config),
      ...(["policy", "rollout"] as const).flatMap((role) => this.#layoutProblem(role, config, task)),
      ...shardProblems(config, {
        trainer: this.rankCutOf("policy", config, task),
        knowsTrainers: isSame || this.of(rollout.adapter).takesTrainersModel === true,
      }),
    ];
  }

  #layoutProblem(role: EngineRole, config: JobConfig, task: TaskNeeds): EngineProblem[] {
    const cut = this.rankCutOf(role, config, task);
    const size = config.processes?.[role] ?? 1;
    const fault = cut && faultOfCut(cut, size);
    if (!fault) return [];
    const key = `processes.${role}`;
    const text = `${key} = ${size}: ${this.of(config.engine[role].adapter).kind} can not cut the model over them: ${fault}; change ${key} or the engine's own options`;
    return [{ keys: [key, keys[role]], text }];
  }

  /** How the processes of a replica have the model; `null` where one process takes it whole, or has the whole training state. */
  rankCutOf(
    role: EngineRole,
    { engine, processes }: Pick<JobConfig, "engine" | "processes">,
    task: TaskNeeds,
  ): RankCut | null {
    const size = processes?.[role] ?? 1;
    const { adapter, options } = engine[role];
    if (size === 1) return null;
    // A sampler of another kind does not load the engine of the trainers, which then do not train in shards.
    const { layout, trainsInShards } = this.#adapters.get(adapter) ?? (role === "rollout" ? this.of(adapter) : {});
    if (!layout || (role === "policy" && !trainsInShards)) return null;
    const { tensors } = this.describe(role, engine, task);
    return rankCutOf(layout(options, tensors, size, role), tensors);
  }

  /** What stands against each level of determinism, one sentence each: of the configuration, of its samplers, of its trainers. */
  contradictionsOf(config: JobConfig, task: TaskNeeds): readonly Contradiction[] {
    const of = (role: EngineRole, level: DeterminismLevel): readonly Contradiction[] => {
      const { adapter, options } = config.engine[role];
      const { kind, repeats } = this.of(adapter);
      if (repeats) return repeats(options, role).map((problem) => ({ level, ...problem }));
      if (this.describe(role, config.engine, task).deterministic) return [];
      const key = keys[role];
      const text = `${key} = "${adapter}": ${kind} says that equal input does not give equal bits; use an engine that is deterministic`;
      return [{ level, keys: [key], text }];
    };
    return [...configContradictions(config), ...of("rollout", "L2"), ...of("policy", "L3")];
  }

  /** Opens the trainer of a job. @throws what the adapter throws; MUSTER_ERR_ENGINE_ROLE, MUSTER_ERR_ENGINE_DIFFERS */
  async openPolicy(config: JobConfig, task: TaskNeeds, rank?: RankOpening): Promise<PolicyEngine> {
    const { adapter, options, opening } = this.#openingOf("policy", config, task, rank);
    if (!adapter.openPolicy) throw errors.EngineRole({ kind: adapter.kind, role: "trainer" });
    return await this.#checked("policy", await adapter.openPolicy(options, opening), opening);
  }

  /** Opens the sampler of a job. @throws as {@link openPolicy} */
  async openRollout(config: JobConfig, task: TaskNeeds, rank?: RankOpening): Promise<RolloutEngine> {
    const { adapter, options, opening } = this.#openingOf("rollout", config, task, rank);
    if (!adapter.openRollout) throw errors.EngineRole({ kind: adapter.kind, role: "sampler" });
    return await this.#checked("rollout", await adapter.openRollout(options, opening), opening);
  }

  /** Opens what a process does that is not rank 0 of its replica. @throws as {@link openPolicy} */
  async openRank(role: EngineRole, config: JobConfig, task: TaskNeeds, rank: RankOpening): Promise<RankProgram> {
    const { adapter, options, opening } = this.#openingOf(role, config, task, rank);
    if (!adapter.openRank) throw errors.EngineProcesses({ kind: adapter.kind, role });
    return await adapter.openRank(options, { ...opening, ...rank }, role);
  }

  #openingOf(role: EngineRole, config: JobConfig, task: TaskNeeds, rank?: RankOpening) {
    const { adapter: name, options } = config.engine[role];
    const trainer = this.#trainerOf(role, config.engine, task);
    const opening: EngineOpening = {
      needs: needsOf(task),
      config,
      ...(trainer ? { trainer } : {}),
      ...rank,
    };
    return { adapter: this.of(name), options, opening };
  }

  /** Only for samplers that take the trainers' model: to ask the trainer of others could start a program that is not on this host. */
  #trainerOf(role: EngineRole, engine: JobConfig["engine"], task: TaskNeeds): EngineDescription | undefined {
    const { takesTrainersModel } = this.of(engine[role].adapter);
    return role === "rollout" && takesTrainersModel ? this.describe("policy", engine, task) : undefined;
  }

  /** The engine, when it is what its adapter said; closed otherwise. */
  async #checked<E extends PolicyEngine | RolloutEngine>(
    role: EngineRole,
    engine: E,
    { config, needs }: EngineOpening,
  ): Promise<E> {
    try {
      checkOpened(engine.info(), this.describe(role, config.engine, needs));
      return engine;
    } catch (error) {
      await engine.close();
      throw error;
    }
  }

  #processProblem(role: EngineRole, { engine, processes, rollout }: JobConfig): EngineProblem[] {
    const count = processes?.[role] ?? 1;
    const key = `processes.${role}`;
    const { kind, openRank } = this.of(engine[role].adapter);
    if (count === 1) return [];
    if (!openRank) {
      const text = `${key} = ${count}: ${kind} is an engine of one process; set it to 1, or name an engine of several in ${keys[role]}`;
      return [{ keys: [key, keys[role]], text }];
    }
    if (role === "policy" || rollout.ranks === 1) return [];
    const text = `${key} = ${count} and rollout.ranks = ${rollout.ranks}: a replica has its ranks as processes, or as what rollout.ranks means to its engine, not both; set one of them to 1`;
    return [{ keys: [key, "rollout.ranks"], text }];
  }

  #roleProblem(role: EngineRole, { adapter: name }: JobConfig["engine"]["policy"]): EngineProblem[] {
    const { kind, roles } = this.of(name);
    if (roles.includes(role)) return [];
    const key = keys[role];
    const can = roles.map((each) => does[each]).join(" and ");
    return [
      { keys: [key], text: `${key} = "${name}": ${kind} ${can} only; name an engine that ${does[role]} in ${key}` },
    ];
  }
}

const keys = { policy: "engine.kind", rollout: "engine.rollout" } as const;
const does = { policy: "trains", rollout: "samples" } as const;

const needsOf = ({ vocab, maxContext, tokenizer = "" }: TaskNeeds): ModelNeeds => ({ vocab, maxContext, tokenizer });

function modelProblems(trainer: EngineDescription, task: TaskNeeds): readonly EngineProblem[] {
  const short = (["vocab", "maxContext"] as const).filter((size) => trainer[size] < task[size]);
  return short.map((size) => ({
    keys: [keys.policy],
    text: `the engine's model ${trainer.modelId} has ${size} ${trainer[size]}, and the task needs ${task[size]}; choose another model or task`,
  }));
}

/** What engines declare is read: nothing of it may turn out later as silence. */
function traitProblems(
  trainer: EngineDescription,
  sampler: EngineDescription,
  config: JobConfig,
): readonly EngineProblem[] {
  const { rollout, sampling, agreement = "state" } = config;
  const problems: EngineProblem[] = [];
  if (!trainer.deterministic && agreement === "state")
    problems.push({
      keys: [keys.policy, "job.agreement"],
      text: `job.agreement = "state": trainers vote on the bits of their state, and the engine of ${keys.policy} says that equal input does not give equal bits; set job.agreement = "leader", or "weights" where it repeats what samplers get, or use an engine that is deterministic`,
    });
  const way = rollout.ranks > 1 ? "shards" : "inline";
  if (!sampler.transports.includes(way))
    problems.push({
      keys: [keys.rollout, "rollout.ranks"],
      text: `rollout.ranks = ${rollout.ranks}: the sampler would take its weights by ${way}, and it takes them by ${sampler.transports.join(", ") || "nothing"} only; change rollout.ranks or the engine`,
    });
  if (sampler.logprobs === "raw" && sampling.temperature !== 1)
    problems.push({
      keys: [keys.rollout, "sampling.temperature"],
      text: `sampling.temperature = ${sampling.temperature}: the sampler gives log-probabilities of before the temperature, so every ratio would be wrong; set it to 1`,
    });
  return [...problems, ...lossProblems(trainer, config)];
}

/** A loss that an engine does not know must not be one that it leaves out. */
function lossProblems({ losses = [] }: EngineDescription, config: JobConfig): readonly EngineProblem[] {
  return lossNeedsOf(config)
    .filter(({ feature }) => !losses.includes(feature))
    .map(({ feature, key, value }) => ({
      keys: [keys.policy, key],
      text: `${key} = ${JSON.stringify(value)}: the engine of ${keys.policy} does not say that it can do this (${feature}), it can ${losses.join(", ") || "the clipped surrogate alone"}; change ${key} or use an engine that can`,
    }));
}

function formatProblems(
  trainer: EngineDescription,
  sampler: EngineDescription,
  config: JobConfig,
): readonly EngineProblem[] {
  const problem = (difference: FormatDifference, fix: string): readonly EngineProblem[] => {
    const { what, trainer: ours, sampler: theirs } = difference;
    const text = `${keys.policy} and ${keys.rollout} do not agree on a weight format: ${what} is ${ours} for the trainers and ${theirs} for the samplers; ${fix}`;
    return [{ keys: [keys.policy, keys.rollout], text }];
  };
  const difference = formatDifference(trainer, sampler);
  if (!difference) return [];
  const fix = "configure both for one model";
  const other = formatDifference({ ...trainer, tensors: [] }, { ...sampler, tensors: [] });
  if (other) return problem(other, fix);
  const found = conversionOf(trainer.tensors, sampler);
  if (found && !(found instanceof SectionConversion)) return problem(found, fix);
  if (config.rollout.ranks === 1 && (config.processes?.rollout ?? 1) === 1) return [];
  const alone =
    "set rollout.ranks and processes.rollout to 1, since weights are converted for samplers of one process only";
  return problem(difference, `${alone}, or ${fix}`);
}
