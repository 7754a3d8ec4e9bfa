export { taskOf } from "./built-in/registry.ts";
export { type FileTask, openFileTask, type PromptFiles } from "./file-task.ts";
export { needsOfJob, openTask } from "./open-task.ts";
export {
  type BuiltInTask,
  type ModelNeeds,
  needsOfTask,
  type Prompt,
  type PromptKey,
  type PromptSource,
  type Task,
  type Tokenizer,
} from "./task.ts";
