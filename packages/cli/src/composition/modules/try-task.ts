/** The module of a task, asked for its first prompts before anything starts. */
import { checkModuleDigest } from "@muster/data";
import { isSupervised, type JobConfig } from "@muster/protocol";
import type { FoundTaskModule, NamedPlan } from "@muster/runtime/config";
import { errors } from "../../errors.ts";
import { askModule } from "./ask-module.ts";

/** What the module at an absolute path is. @throws MUSTER_ERR_TASK_MODULE_FAULT with what is wrong with it */
export async function tryTaskModule(path: string, plan: NamedPlan): Promise<FoundTaskModule> {
  const answer = await askModule(path, "task", plan);
  if ("fault" in answer) throw errors.TaskModuleFault({ fault: answer.fault });
  return answer.found as FoundTaskModule;
}

/** A job goes on with the module that it began with. @throws as {@link tryTaskModule}, MUSTER_ERR_TASK_MODULE_DIFFERS */
export async function checkStoredTask(config: JobConfig): Promise<void> {
  const { task, taskModule, seed, batch, sampling } = config;
  if (!taskModule) return;
  const plan = { seed, ...batch, ...sampling, evalPrompts: 0, isSupervised: isSupervised(config) };
  const { digest } = await tryTaskModule(task.name, plan);
  checkModuleDigest(task.name, digest, taskModule.digest);
}
