/** What the loader of job files asks of engines: their own tables, and what they say of a job. Who composes a program brings them. */
import type { JobConfig } from "@muster/protocol";
import type { Field, Scalar } from "./field.ts";
import { section } from "./field-section.ts";
import type { Problem } from "./problem.ts";

/** What a task asks of a model. */
export interface TaskShape {
  /** Number of token ids. */
  readonly vocab: number;
  /** Longest prompt and response together, in tokens. */
  readonly maxContext: number;
  /** Digest of the tokenizer; absent where nobody says one. */
  readonly tokenizer?: string;
  /** What was found in the files of a task that has some. */
  readonly prompts?: FoundPrompts;
  /** What was found in the module of a task that is one. */
  readonly taskModule?: FoundTaskModule;
}

/** What the module of a task turned out to be. */
export interface FoundTaskModule extends NonNullable<JobConfig["taskModule"]> {
  readonly hasEvalPrompt: boolean;
  readonly hasReward: boolean;
}

/** Where prompts come from, before anybody has looked into the files. */
export type PromptFiles = Omit<NonNullable<JobConfig["prompts"]>, keyof Omit<FoundPrompts, "heldOutRows">>;

/** What the files of prompts turned out to be. */
export interface FoundPrompts extends Pick<NonNullable<JobConfig["prompts"]>, "digest" | "vocab" | "tokenizerDigest"> {
  /** 0 where nothing is held out. */
  readonly heldOutRows: number;
}

/** One key of an engine's own table. */
export interface EngineKey {
  readonly name: string;
  readonly kind: "text" | "optional-text" | "integer" | "number" | "boolean";
  readonly default: Scalar;
  readonly says: string;
}

/** An engine's own table of a job file. */
export interface EngineTable {
  /** `engine.<kind>`, or a name of its own. */
  readonly table: string;
  readonly keys: readonly EngineKey[];
  /** What the engine's schema finds wrong with values that are all there, each of its kind. */
  faultsOf(options: Readonly<Record<string, Scalar>>): readonly { readonly name: string; readonly fault: string }[];
}

/** The engines that a job names. */
export interface JobEngines {
  /** @throws for an engine that is not known, naming the known ones. */
  tableOf(adapter: string): EngineTable;
  /** The vocabulary and context of the job's model. @throws for options that make no model. */
  modelOf(engine: JobConfig["engine"], task: TaskShape): JobConfig["model"];
  /** What the engines find wrong with a job, alone and with each other. */
  problemsOf(config: JobConfig, task: TaskShape): readonly Problem[];
}

/** Roles that compute, and the key that names the engine of each. */
export const engineKeys = { policy: "engine.kind", rollout: "engine.rollout" } as const;

/** Where the values of a table's keys are in a configuration is the engine's business; they land under its own name. */
export function fieldsOfTable({ table, keys }: EngineTable): readonly Field[] {
  const rows = keys.map(({ name, kind, default: fallback, says }) => [name, [kind, fallback, says, ""]] as const);
  return section(table, Object.fromEntries(rows)).map((field) => ({ ...field, path: `options of ${field.key}` }));
}
