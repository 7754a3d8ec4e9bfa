/** The module of a task, asked for its first prompts before anything starts. */
import type { FoundTaskModule, NamedPlan } from "@muster/runtime";
import { errors } from "../../errors.ts";
import { askModule } from "./ask-module.ts";

/** What the module at an absolute path is. @throws MUSTER_ERR_TASK_MODULE_FAULT with what is wrong with it */
export async function tryTaskModule(path: string, plan: NamedPlan): Promise<FoundTaskModule> {
  const answer = await askModule(path, "task", plan);
  if ("fault" in answer) throw errors.TaskModuleFault({ fault: answer.fault });
  return answer.found as FoundTaskModule;
}
