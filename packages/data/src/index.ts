export { answerIdsOf } from "./answer-ids.ts";
export { taskOf } from "./built-in/registry.ts";
export { type FileTask, openFileTask, type PromptFiles } from "./file-task.ts";
export { type ModulePlan, type ModuleTask, openModuleTask } from "./module-task.ts";
export { checkModuleDigest, needsOfJob, openTask, openTexts } from "./open-task.ts";
export {
  type BuiltInTask,
  type ModelNeeds,
  needsOfTask,
  type PromptKey,
  type PromptSource,
  type Task,
  type Tokenizer,
} from "./task.ts";
