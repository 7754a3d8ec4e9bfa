/** The module of a task, asked for its first prompts before anything starts. */
import { checkModuleDigest } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
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
export async function checkStoredTask({ task, taskModule, seed, batch, sampling }: JobConfig): Promise<void> {
  if (!taskModule) return;
  const { digest } = await tryTaskModule(task.name, { seed, ...batch, ...sampling, evalPrompts: 0 });
  checkModuleDigest(task.name, digest, taskModule.digest);
}
