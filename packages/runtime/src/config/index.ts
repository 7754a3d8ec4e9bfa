/** The configuration of a job: from its file, the environment and flags. A process that is told its configuration does not load it. */
export type { Field, FieldKind, Scalar } from "./field.ts";
export { fields } from "./fields.ts";
export {
  type EngineKey,
  type EngineTable,
  type FoundTaskModule,
  fieldsOfTable,
  type JobEngines,
  type TaskShape,
} from "./job-engines.ts";
export {
  enginesNamedIn,
  explainConfig,
  type LoadedJob,
  type LoadJobOptions,
  loadJob,
  type NamedPlan,
  type NamedPrompts,
  promptsNamedIn,
  refuseFaults,
  type Setting,
} from "./load-job.ts";
export type { Problem } from "./problem.ts";
