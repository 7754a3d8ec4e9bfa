/** The reward of a job, wherever it is computed. */
import { isAbsolute } from "node:path";
import { needsOfJob } from "@muster/data";
import { type JobConfig, workerReward } from "@muster/protocol";
import type { Reward } from "../engine.ts";
import { loadReward } from "../load-module.ts";
import { rewardOf } from "./built-in.ts";
import { HttpReward, isHttpReward } from "./http-reward.ts";
import { ProgramReward } from "./program-reward.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** True for the path of a file that is imported; any other path is that of a program. Pure. */
export function isModulePath(path: string): boolean {
  return isAbsolute(path) && /\.[cm]?[jt]s$/.test(path);
}

/** True for the path of a program that is started. Pure. */
export function isProgramPath(path: string): boolean {
  return isAbsolute(path) && !isModulePath(path);
}

/**
 * Opens the reward of a job.
 *
 * @param env - Environment that a program inherits; a worker without what is meant for Muster itself.
 * @throws as {@link openReward}, and as a worker that does not begin
 */
export async function openRewardOf(config: JobConfig, env: Environment): Promise<Reward> {
  const { task, scorers } = config;
  if (task.reward !== workerReward || !scorers?.reward) return await openReward(task.reward, env);
  const { openWorkerReward } = await import("./worker-reward.ts");
  return await openWorkerReward(scorers.reward, needsOfJob(config), env);
}

/**
 * Opens a reward: a built-in one by its name, a service by its address, and by absolute path a module (`.mjs`, `.ts` and the like) or a program.
 *
 * @throws MUSTER_ERR_REWARD_UNKNOWN, MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_MODULE_EXPORT
 */
export async function openReward(reward: string, env: Environment): Promise<Reward> {
  if (isHttpReward(reward)) return new HttpReward(reward);
  if (isModulePath(reward)) return await loadReward(reward);
  return isAbsolute(reward) ? new ProgramReward(reward, env) : rewardOf(reward);
}
