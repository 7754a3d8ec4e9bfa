/** The task of a job, wherever its prompts come from. */
import { readFile } from "node:fs/promises";
import type { TaskTokenizer } from "@muster/base";
import { isSupervised, type JobConfig } from "@muster/protocol";
import { taskOf } from "./built-in/registry.ts";
import { errors } from "./errors.ts";
import { openFileTask } from "./file-task.ts";
import { openTokenizer } from "./hugging-face/tokenizer.ts";
import { importModule } from "./import-module.ts";
import { openModuleTask } from "./module-task.ts";
import { tokenizerOfModule } from "./module-tokenizer.ts";
import { type ModelNeeds, needsOfTask, type Task } from "./task.ts";
import { checkTaskModule } from "./task-module.ts";

/**
 * Opens the task of a job as a sampler needs it.
 *
 * @throws MUSTER_ERR_TASK_UNKNOWN; MUSTER_ERR_PROMPTS_DIFFER when this host has other files than the job was made with,
 * MUSTER_ERR_TASK_MODULE_DIFFERS when it has another module, and as `openModuleTask`
 */
export async function openTask(config: JobConfig): Promise<Task> {
  const opened = await openPrompts(config);
  const { toolParser = null } = config.rollout;
  return toolParser === null ? opened : { ...opened, toolParser };
}

async function openPrompts(config: JobConfig): Promise<Task> {
  const { seed, task, taskModule, prompts, batch, sampling } = config;
  const plan = { ...batch, ...sampling, isSupervised: isSupervised(config) };
  if (taskModule) {
    const path = task.name;
    const opened = await openModuleTask(path, { seed, ...plan });
    checkModuleDigest(path, opened.digest, taskModule.digest);
    return opened;
  }
  if (!prompts) return taskOf(task.name);
  const opened = await openFileTask(withoutFindings(prompts), plan);
  if (opened.digest === prompts.digest) return opened;
  await opened.close();
  throw errors.PromptsDiffer({ path: prompts.train, found: opened.digest, wanted: prompts.digest });
}

/**
 * Opens what of a job's task makes tokens of text and text of tokens, without its prompts: they may be many.
 *
 * @throws MUSTER_ERR_TASK_UNKNOWN, MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_TASK_MODULE_INVALID, MUSTER_ERR_TOKENIZER_INVALID
 */
export async function openTexts({
  task,
  taskModule,
  prompts,
}: Pick<JobConfig, "task" | "taskModule" | "prompts">): Promise<TaskTokenizer> {
  if (prompts) return await openTokenizer(prompts.tokenizer);
  if (!taskModule) return taskOf(task.name);
  const source = await readFile(task.name, "utf8");
  const module = checkTaskModule(await importModule(task.name), { path: task.name, source });
  return await tokenizerOfModule(module, task.name);
}

/** Holds the module that was found against the one that the job was made with. Pure. @throws MUSTER_ERR_TASK_MODULE_DIFFERS */
export function checkModuleDigest(path: string, found: string, wanted: string): void {
  if (found !== wanted) throw errors.TaskModuleDiffers({ path, found, wanted });
}

/** What a job's task asks of a model; reads no file. Pure. @throws MUSTER_ERR_TASK_UNKNOWN */
export function needsOfJob({ task, taskModule, prompts, sampling }: JobConfig): ModelNeeds {
  const found = taskModule ?? prompts;
  if (!found) return needsOfTask(taskOf(task.name));
  const { vocab, tokenizerDigest: tokenizer, maxTokens } = found;
  return { vocab, maxContext: maxTokens + sampling.maxNewTokens, tokenizer };
}

function withoutFindings({ digest: _, vocab: __, tokenizerDigest: ___, ...files }: NonNullable<JobConfig["prompts"]>) {
  return files;
}
