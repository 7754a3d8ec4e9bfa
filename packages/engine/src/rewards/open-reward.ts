/** The reward of a job, wherever it is computed. */
import { isAbsolute } from "node:path";
import { needsOfJob } from "@muster/data";
import { type JobConfig, workerReward } from "@muster/protocol";
import type { Reward } from "../engine.ts";
import { type ModuleOptions, openModuleReward } from "../modules/open-modules.ts";
import { rewardOf } from "./built-in.ts";
import { HttpReward, isHttpReward } from "./http-reward.ts";
import { ProgramReward } from "./program-reward.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** True for the path of a module of JavaScript or TypeScript; any other path is that of a program. Pure. */
export function isModulePath(path: string): boolean {
  return isAbsolute(path) && /\.[cm]?[jt]s$/.test(path);
}

/** True for the path of a program that is started. Pure. */
export function isProgramPath(path: string): boolean {
  return isAbsolute(path) && !isModulePath(path);
}

/**
 * Opens the reward of a job: a built-in one by its name, a service by its address, a worker, and by absolute path a module (`.mjs`, `.ts` and the like) or
 * a program.
 *
 * @throws MUSTER_ERR_REWARD_UNKNOWN, as {@link openModuleReward}, and as a worker that does not begin
 */
export async function openRewardOf(options: ModuleOptions & { readonly config: JobConfig }): Promise<Reward> {
  const { config, env } = options;
  const { task, scorers } = config;
  if (task.reward === workerReward && scorers?.reward) {
    const { openWorkerReward } = await import("./worker-reward.ts");
    return await openWorkerReward(scorers.reward, needsOfJob(config), env);
  }
  return isModulePath(task.reward) ? await openModuleReward(task.reward, options) : openReward(task.reward, env);
}

/** Opens a reward that has no process of its own before it is asked. @throws MUSTER_ERR_REWARD_UNKNOWN */
export function openReward(reward: string, env: Environment): Reward {
  if (isHttpReward(reward)) return new HttpReward(reward);
  return isAbsolute(reward) ? new ProgramReward(reward, env) : rewardOf(reward);
}
