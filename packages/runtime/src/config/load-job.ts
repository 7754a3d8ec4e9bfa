/**
 * From a job file, the environment and flags to the frozen configuration that all actors agree on. Every fault is found in one go:
 * a faulty value is reported, replaced by its default, and the rest is checked on.
 */
import { messageOf } from "@muster/base";
import { isSupervised, type JobConfig, jobConfigSchema, promptsTask } from "@muster/protocol";
import { errors } from "../errors.ts";
import { type Field, isPathOfModule, type Scalar } from "./field.ts";
import { type KeyTable, keyTableOf } from "./fields.ts";
import {
  type EngineTable,
  engineKeys,
  fieldsOfTable,
  type JobEngines,
  type PromptFiles,
  type TaskShape,
} from "./job-engines.ts";
import { type Problem, shown } from "./problem.ts";
import { brokenRelations } from "./relations.ts";
import { type Raw, readEnvironment, readFile, readFlags, type Sourced } from "./sources.ts";
import { taskProblems } from "./task-problems.ts";
import { parseValue } from "./values.ts";

/** Where a job's configuration comes from; later sources win. */
export interface LoadJobOptions {
  /** Path of the job file; none for a job made of flags. */
  readonly file?: string;
  /** Default the process's environment. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** `section.key=value` texts, as `--set` gives them. */
  readonly set?: readonly string[];
  /** Values of named flags by `section.key`. */
  readonly flags?: Readonly<Record<string, string | number | boolean>>;
  /** Folder that relative paths outside the file start from. Default the process's. */
  readonly folder?: string;
  /** The shape of the named task; throws for unknown names, naming the known ones. */
  readonly describeTask: (name: string) => TaskShape;
  /** The engines that {@link enginesNamedIn} finds. */
  readonly engines: JobEngines;
}

/** One key with its value and who said it. */
export interface Setting {
  readonly key: string;
  /** The value as written outside: `5s`, `true`, an absolute path for paths. */
  readonly value: string;
  /** `default`, `<file>:<line>`, `env:<NAME>` or `flag`. */
  readonly source: string;
  readonly kind: Field["kind"];
}

/** A loaded job. */
export interface LoadedJob {
  /** Frozen, all the way down. */
  readonly config: JobConfig;
  readonly settings: readonly Setting[];
}

/** Names and absolute paths of the engines that a job names, of trainers and samplers: who loads the job brings them. */
export function enginesNamedIn(options: Omit<LoadJobOptions, "describeTask" | "engines">): readonly string[] {
  return [...new Set(Object.values(engineNames(options, keyTableOf([]))))];
}

/** What else of a job decides over its prompts. */
export interface NamedPlan {
  readonly seed: number;
  readonly groupsPerStep: number;
  readonly maxNewTokens: number;
  /** Held-out prompts of an evaluation. */
  readonly evalPrompts: number;
  /** Whether answers are trained on. */
  readonly isSupervised: boolean;
}

/** Where a job's prompts come from that are not built in: who loads the job looks into that. */
export type NamedPrompts = { readonly plan: NamedPlan } & (
  | { readonly files: PromptFiles }
  /** Absolute path of the task's module. */
  | { readonly module: string }
);

/** The files or the module that a job's prompts come from. `null` when it names none. */
export function promptsNamedIn(options: Sources): NamedPrompts | null {
  const keys = keyTableOf([]);
  const values = new Map(sourcesOf(options, keys).flatMap((source) => [...source.values]));
  return new Draft(values, { folder: options.folder ?? process.cwd(), keys }).prompts();
}

/**
 * Loads a job. Precedence: flags, then environment, then file, then defaults.
 *
 * @throws MUSTER_ERR_CONFIG_INVALID listing every fault with its place, key, value and fix.
 */
export function loadJob(options: LoadJobOptions): LoadedJob {
  const { folder = process.cwd(), engines, describeTask } = options;
  const names = engineNames(options, keyTableOf([]));
  const tables = tablesOf(engines, names);
  const keys = keyTableOf([...new Map(tables.map((table) => [table.table, fieldsOfTable(table)])).values()].flat());
  const [file, ...others] = sourcesOf(options, keys);
  const sources = [file, ...others];
  const draft = new Draft(new Map(sources.flatMap(({ values }) => [...values])), { folder, keys });
  const config = draft.compile(describeTask, engines);
  const problems = file.isUnread ? file.problems : [...sources.flatMap((source) => source.problems), ...draft.problems];
  if (problems.length > 0 || !config) throw configInvalid(problems);
  return { config: deepFreeze(config), settings: draft.settings() };
}

/** Refuses a job for what was found in what it brings along, by the keys that name it. @throws MUSTER_ERR_CONFIG_INVALID when there is a fault */
export function refuseFaults({ settings }: LoadedJob, faults: ReadonlyMap<string, string>): void {
  const problems = settings.flatMap(({ key, source, value }): Problem[] => {
    const fault = faults.get(key);
    return fault === undefined ? [] : [{ keys: [key], text: `${source}: ${key} = ${shown(value)}: ${fault}` }];
  });
  if (problems.length > 0) throw configInvalid(problems);
}

function configInvalid(problems: readonly Problem[]): Error {
  const faults = `${problems.length} ${problems.length === 1 ? "fault" : "faults"}`;
  return errors.ConfigInvalid({ faults, list: problems.map(({ text }) => `  - ${text}`).join("\n") });
}

type Sources = Omit<LoadJobOptions, "describeTask" | "engines">;

function sourcesOf(options: Sources, keys: KeyTable): readonly [Sourced, Sourced, Sourced] {
  const { env = process.env, set = [], flags = {}, folder = process.cwd() } = options;
  const file: Sourced = options.file === undefined ? { values: new Map(), problems: [] } : readFile(options.file, keys);
  return [file, readEnvironment(env, folder, keys), readFlags({ set, named: flags }, folder, keys)];
}

/** The engine of each role, before anything else is known of the job. */
function engineNames(options: Sources, keys: KeyTable): Readonly<Record<keyof typeof engineKeys, string>> {
  const values = new Map(sourcesOf(options, keys).flatMap((source) => [...source.values]));
  const nameOf = (key: string, fallback: string): string => {
    const [field, raw] = [keys.byKey.get(key), values.get(key)];
    const parsed = field && raw ? parseValue(field, raw, 0) : { fault: "" };
    return "value" in parsed ? String(parsed.value) : fallback;
  };
  const policy = nameOf(engineKeys.policy, "embedded");
  return { policy, rollout: nameOf(engineKeys.rollout, policy) };
}

/** The tables of the engines that are known; one that is not is a fault of its key, said where the job is compiled. */
function tablesOf(engines: JobEngines, names: Readonly<Record<string, string>>): readonly EngineTable[] {
  return [...new Set(Object.values(names))].flatMap((name) => tableOf(engines, name) ?? []);
}

function tableOf(engines: JobEngines, name: string): EngineTable | null {
  try {
    return engines.tableOf(name);
  } catch {
    // The engine is asked again where the job is compiled, and what it throws is a fault of its key there.
    return null;
  }
}

/** Every setting of a job with its source, in the order of the reference: what `config print --explain` shows. */
export function explainConfig(job: LoadedJob): readonly Setting[] {
  return job.settings;
}

class Draft {
  readonly problems: Problem[] = [];
  readonly #keys: KeyTable;
  readonly #raws: ReadonlyMap<string, Raw>;
  readonly #defaults = new Map<string, Raw>();
  readonly #values = new Map<string, unknown>();

  constructor(given: ReadonlyMap<string, Raw>, { folder, keys }: { readonly folder: string; readonly keys: KeyTable }) {
    this.#keys = keys;
    this.#raws = given;
    for (const field of keys.fields) {
      this.#defaults.set(field.key, { value: this.#defaultOf(field), textual: false, source: "default", folder });
      this.#read(field);
    }
  }

  compile(describeTask: (name: string) => TaskShape, engines: JobEngines): JobConfig | null {
    const task = this.#describe(describeTask);
    const engine = this.#engines(engines);
    const model = this.#model(engines, engine, task);
    const { fields } = this.#keys;
    const first = jobConfigSchema.safeParse(this.#nested(engine, model, task));
    for (const issue of first.error?.issues ?? []) {
      const field = fields.find(({ path }) => `${issue.path.join(".")}.`.startsWith(`${path}.`));
      if (field) this.#fault(field, schemaFault(issue));
      else
        this.problems.push({ keys: [], text: `${issue.path.join(".")}: ${issue.message}; the task's shape is wrong` });
    }
    const config = jobConfigSchema.safeParse(this.#nested(this.#engines(engines), model, task)).data;
    if (!config) return null;
    const faulty = new Set(this.problems.flatMap(({ keys }) => keys));
    const relations = brokenRelations(config, (key) => this.#raw(key).value);
    this.problems.push(...relations.filter(({ keys }) => !keys.some((key) => faulty.has(key))));
    this.problems.push(...taskProblems(config, task, (key) => this.#raw(key).source));
    if (!this.#isEngineFaulty()) this.problems.push(...engines.problemsOf(config, task));
    return config;
  }

  /** `null` unless all is there that says where prompts come from. */
  prompts(): NamedPrompts | null {
    const { task, prompts, seed, batch, sampling, evaluation, training } = this.#nestedFields() as Partial<JobConfig>;
    const plan = {
      seed: seed ?? 0,
      groupsPerStep: batch?.groupsPerStep ?? 1,
      maxNewTokens: sampling?.maxNewTokens ?? 1,
      evalPrompts: Math.max(evaluation?.prompts ?? 0, evaluation?.lossRows ?? 0),
      isSupervised: isSupervised({ training }),
    };
    if (task && isPathOfModule(task.name)) return { module: task.name, plan };
    const isWhole = promptKeys.every((key) => this.#values.get(key));
    return task?.name === promptsTask && prompts && isWhole ? { files: prompts, plan } : null;
  }

  settings(): readonly Setting[] {
    return this.#keys.fields.map(({ key, kind }) => {
      const { value, source } = this.#raw(key);
      return { key, kind, value: String(isResolved(kind) ? (this.#values.get(key) ?? "") : value), source };
    });
  }

  #raw(key: string): Raw {
    return (this.#raws.get(key) ?? this.#defaults.get(key)) as Raw;
  }

  #defaultOf(field: Field): Scalar {
    const read = (key: string): Scalar => this.#values.get(key) as Scalar;
    return typeof field.default === "function" ? field.default(read) : field.default;
  }

  #read(field: Field): void {
    const raw = this.#raws.get(field.key);
    if (!raw && field.required) {
      this.problems.push({ keys: [field.key], text: `${field.key} is missing: ${field.says} Add it to the job file` });
    }
    const parsed = this.#parse(field, this.#raw(field.key));
    if ("value" in parsed) this.#values.set(field.key, parsed.value);
    else this.#fault(field, parsed.fault);
  }

  #parse(field: Field, raw: Raw) {
    return parseValue(field, raw, Number(this.#values.get("job.seed") ?? 0));
  }

  /** Reports a faulty value and goes on with the default. */
  #fault(field: Field, fault: string): void {
    const { value, source } = this.#raw(field.key);
    this.problems.push({ keys: [field.key], text: `${source}: ${field.key} = ${shown(value)}: ${fault}` });
    const fallback = this.#parse(field, this.#defaults.get(field.key) as Raw);
    if ("value" in fallback) this.#values.set(field.key, fallback.value);
  }

  #describe(describeTask: (name: string) => TaskShape): TaskShape {
    const harmless = { vocab: 1, maxContext: Number.MAX_SAFE_INTEGER };
    const isFaulty = this.#isPromptsFaulty();
    if (isFaulty || this.problems.some(({ keys }) => keys.includes("task.name"))) return harmless;
    const name = String(this.#values.get("task.name"));
    return this.#ask(name === promptsTask ? "prompts.train" : "task.name", harmless, () => describeTask(name));
  }

  /** The files of prompts belong to the task that reads them, and to no other. */
  #isPromptsFaulty(): boolean {
    const isOfFiles = this.#values.get("task.name") === promptsTask;
    const faulty = promptKeys.filter((key) => Boolean(this.#values.get(key)) !== isOfFiles);
    for (const key of faulty) {
      if (this.problems.some(({ keys }) => keys.includes(key))) continue;
      const text = isOfFiles
        ? `${key} is missing: task.name = "${promptsTask}" takes its prompts from files; set ${key}`
        : `${this.#raw(key).source}: ${key} is set, and only task.name = "${promptsTask}" reads it; change task.name, or leave it out`;
      this.problems.push({ keys: [key], text });
    }
    return faulty.length > 0;
  }

  /** What is asked because of a key: what throws is a fault of that key. */
  #ask<T>(key: string, harmless: T, ask: () => T): T {
    try {
      return ask();
    } catch (error) {
      const { source, value } = this.#raw(key);
      this.problems.push({ keys: [key], text: `${source}: ${key} = ${shown(value)}: ${messageOf(error)}` });
      return harmless;
    }
  }

  /** The engine of each role with its options; faults of an engine's own table are reported here. */
  #engines(engines: JobEngines): JobConfig["engine"] {
    const engineOf = (key: string): JobConfig["engine"]["policy"] => {
      const adapter = String(this.#values.get(key));
      const isAskedBefore = this.problems.some(({ keys }) => keys.includes(key));
      const table = isAskedBefore ? tableOf(engines, adapter) : this.#ask(key, null, () => engines.tableOf(adapter));
      if (!table) return { adapter, options: {} };
      return { adapter, options: this.#options(table) };
    };
    const policy = engineOf(engineKeys.policy);
    const isSame = policy.adapter === this.#values.get(engineKeys.rollout);
    return { policy, rollout: isSame ? policy : engineOf(engineKeys.rollout) };
  }

  #options(table: EngineTable): Readonly<Record<string, Scalar>> {
    const read = () =>
      Object.fromEntries(
        table.keys.map(({ name }) => [name, (this.#values.get(`${table.table}.${name}`) ?? "") as Scalar]),
      );
    for (const { name, fault } of table.faultsOf(read())) {
      const field = this.#keys.byKey.get(`${table.table}.${name}`);
      if (field) this.#fault(field, fault);
    }
    return read();
  }

  #model(engines: JobEngines, engine: JobConfig["engine"], task: TaskShape): JobConfig["model"] {
    const harmless = { vocab: task.vocab, maxContext: task.maxContext };
    return this.#isEngineFaulty()
      ? harmless
      : this.#ask(engineKeys.policy, harmless, () => engines.modelOf(engine, task));
  }

  #isEngineFaulty(): boolean {
    const tables: readonly string[] = [engineKeys.policy, engineKeys.rollout, "task.name", ...promptKeys];
    return this.problems.some(({ keys }) => keys.some((key) => tables.includes(key) || this.#isEngineKey(key)));
  }

  #isEngineKey(key: string): boolean {
    return this.#keys.byKey.get(key)?.path.startsWith("options of ") ?? false;
  }

  #nested(engine: JobConfig["engine"], model: JobConfig["model"], { prompts: found, taskModule }: TaskShape): object {
    const { prompts, engine: _, ...fields } = this.#nestedFields();
    if (taskModule) {
      const { hasEvalPrompt: ___, hasReward: ____, ...kept } = taskModule;
      return { ...fields, model, engine, taskModule: kept };
    }
    if (!found) return { ...fields, model, engine };
    const { heldOutRows: __, ...findings } = found;
    return { ...fields, model, engine, prompts: { ...(prompts as PromptFiles), ...findings } };
  }

  #nestedFields(): Tree {
    const tree: Tree = {};
    for (const { key, path } of this.#keys.fields) {
      if (this.#isEngineKey(key)) continue;
      const names = path.split(".");
      const last = names.pop() ?? "";
      let branch = tree;
      for (const name of names) {
        branch[name] ??= {};
        branch = branch[name] as Tree;
      }
      branch[last] = this.#values.get(key);
    }
    return withoutUnused(tree);
  }
}

/** Keys without which there are no prompts of files. */
const promptKeys = ["prompts.train", "prompts.tokenizer"] as const;

/** Kinds whose value is shown as it was understood: paths are absolute. */
function isResolved(kind: Field["kind"]): boolean {
  return (
    kind === "path" || kind === "optional-path" || kind === "module" || kind === "reward" || kind === "optional-module"
  );
}

/** The configuration while it is put together. */
interface Tree {
  [name: string]: unknown;
}

/** A job without the command of an agent has none, and no worker of a kind without the command of that. */
function withoutUnused({ scorers, ...tree }: Tree): Tree {
  const { agent, ...rollout } = (tree.rollout ?? {}) as Tree;
  const isUsed = (program: unknown): boolean => (program as Tree | undefined)?.command !== null;
  const used = Object.entries((scorers ?? {}) as Tree).filter(([, program]) => isUsed(program));
  return {
    ...tree,
    ...(isUsed(agent) ? {} : { rollout }),
    ...(used.length > 0 ? { scorers: Object.fromEntries(used) } : {}),
  };
}

function schemaFault(issue: { readonly code: string; readonly message: string }): string {
  if (issue.code === "invalid_format") return 'use 1 to 48 of a-z, 0-9 and "-", starting with a letter or digit';
  return issue.message.replace(/^Invalid (input|option): /, "").replace(/^Too (small|big): /, "");
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(deepFreeze);
  }
  return value;
}
