/**
 * From a job file, the environment and flags to the frozen configuration that all actors agree on. Every fault is found in one go:
 * a faulty value is reported, replaced by its default, and the rest is checked on.
 */
import { messageOf } from "@muster/base";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Field, Scalar } from "./field.ts";
import { fields } from "./fields.ts";
import { type Problem, shown } from "./problem.ts";
import { brokenRelations } from "./relations.ts";
import { type Raw, readEnvironment, readFile, readFlags, type Sourced } from "./sources.ts";
import { parseValue } from "./values.ts";

/** What the model needs to know of a task. */
export interface TaskShape {
  /** Number of token ids. */
  readonly vocab: number;
  /** Longest prompt and response together, in tokens. */
  readonly maxContext: number;
}

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
}

/** One key with its value and who said it. */
export interface Setting {
  readonly key: string;
  /** The value as written outside: `5s`, `true`, an absolute path for paths. */
  readonly value: string;
  /** `default`, `<file>:<line>`, `env:<NAME>` or `flag`. */
  readonly source: string;
}

/** A loaded job. */
export interface LoadedJob {
  /** Frozen, all the way down. */
  readonly config: JobConfig;
  readonly settings: readonly Setting[];
}

/**
 * Loads a job. Precedence: flags, then environment, then file, then defaults.
 *
 * @throws MUSTER_ERR_CONFIG_INVALID listing every fault with its place, key, value and fix.
 */
export function loadJob(options: LoadJobOptions): LoadedJob {
  const { env = process.env, set = [], flags = {}, folder = process.cwd() } = options;
  const file: Sourced = options.file === undefined ? { values: new Map(), problems: [] } : readFile(options.file);
  const sources = [file, readEnvironment(env, folder), readFlags({ set, named: flags }, folder)];
  const draft = new Draft(new Map(sources.flatMap(({ values }) => [...values])), folder);
  const config = draft.compile(options.describeTask);
  const problems = file.isUnread ? file.problems : [...sources.flatMap((source) => source.problems), ...draft.problems];
  if (problems.length > 0 || !config) {
    const faults = `${problems.length} ${problems.length === 1 ? "fault" : "faults"}`;
    const list = problems.map(({ text }) => `  - ${text}`).join("\n");
    throw errors.ConfigInvalid({ faults, list });
  }
  return { config: deepFreeze(config), settings: draft.settings() };
}

/** Every setting of a job with its source, in the order of the reference: what `config print --explain` shows. */
export function explainConfig(job: LoadedJob): readonly Setting[] {
  return job.settings;
}

class Draft {
  readonly problems: Problem[] = [];
  readonly #raws: ReadonlyMap<string, Raw>;
  readonly #defaults = new Map<string, Raw>();
  readonly #values = new Map<string, unknown>();

  constructor(given: ReadonlyMap<string, Raw>, folder: string) {
    this.#raws = given;
    for (const field of fields) {
      this.#defaults.set(field.key, { value: this.#defaultOf(field), textual: false, source: "default", folder });
      this.#read(field);
    }
  }

  compile(describeTask: (name: string) => TaskShape): JobConfig | null {
    const shape = this.#describe(describeTask);
    const first = jobConfigSchema.safeParse(this.#nested(shape));
    for (const issue of first.error?.issues ?? []) {
      const field = fields.find(({ path }) => `${issue.path.join(".")}.`.startsWith(`${path}.`));
      if (field) this.#fault(field, schemaFault(issue));
      else
        this.problems.push({ keys: [], text: `${issue.path.join(".")}: ${issue.message}; the task's shape is wrong` });
    }
    const config = jobConfigSchema.safeParse(this.#nested(shape)).data;
    if (!config) return null;
    const faulty = new Set(this.problems.flatMap(({ keys }) => keys));
    const relations = brokenRelations(config, (key) => this.#raw(key).value);
    this.problems.push(...relations.filter(({ keys }) => !keys.some((key) => faulty.has(key))));
    return config;
  }

  settings(): readonly Setting[] {
    return fields.map(({ key, kind }) => {
      const { value, source } = this.#raw(key);
      return { key, value: String(isResolved(kind) ? (this.#values.get(key) ?? "") : value), source };
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
    if (this.problems.some(({ keys }) => keys.includes("task.name"))) return harmless;
    const name = String(this.#values.get("task.name"));
    try {
      return describeTask(name);
    } catch (error) {
      const text = `${this.#raw("task.name").source}: task.name = ${shown(name)}: ${messageOf(error)}`;
      this.problems.push({ keys: ["task.name"], text });
      return harmless;
    }
  }

  #nested({ vocab, maxContext }: TaskShape): object {
    const tree: Tree = { model: { vocab, maxContext } };
    for (const { key, path } of fields) {
      const names = path.split(".");
      const last = names.pop() ?? "";
      let branch = tree;
      for (const name of names) {
        branch[name] ??= {};
        branch = branch[name] as Tree;
      }
      branch[last] = this.#values.get(key);
    }
    return tree;
  }
}

/** Kinds whose value is shown as it was understood: paths are absolute. */
function isResolved(kind: Field["kind"]): boolean {
  return kind === "path" || kind === "module" || kind === "optional-module";
}

/** The configuration while it is put together. */
interface Tree {
  [name: string]: unknown;
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
