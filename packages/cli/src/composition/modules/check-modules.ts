/** Whether the modules and the weights that a job brings along can be loaded: asked before anything starts, so that no replica dies of it for ever. */
import { access, constants, stat } from "node:fs/promises";
import { delimiter, resolve } from "node:path";
import { messageOf } from "@muster/base";
import { needsOfJob } from "@muster/data";
import { type AgentOptions, agentCommandOf, type EngineRegistry, isModulePath, isProgramPath } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { openModelFolder } from "@muster/tensors";
import { askModule } from "./ask-module.ts";
import { programFault } from "./program-fault.ts";

/** Faults of what a job brings along, by the key that names it. */
export async function brokenModules(config: JobConfig, engines: EngineRegistry): Promise<ReadonlyMap<string, string>> {
  const { task, rollout, weights } = config;
  const checks: Readonly<Record<string, Promise<string | null>>> = {
    "task.reward": rewardFault(task.reward),
    "reward.worker.command": workerFault("reward", config),
    "reference.worker.command": workerFault("reference", config),
    "rollout.generate": rollout.generate === null ? Promise.resolve(null) : importFault(rollout.generate, "generate"),
    "rollout.agent.command": rollout.agent ? agentFault(rollout.agent) : Promise.resolve(null),
    "rollout.agent.directory": rollout.agent ? directoryFault(rollout.agent) : Promise.resolve(null),
    "weights.source": weights.kind === "folder" ? folderFault(weights.path, config, engines) : Promise.resolve(null),
  };
  const faults = new Map<string, string>();
  for (const [key, check] of Object.entries(checks)) {
    const fault = await check;
    if (fault !== null) faults.set(key, fault);
  }
  return faults;
}

/** Why an agent can not be started. It is not tried: nobody knows what it does without a model. */
async function agentFault(agent: AgentOptions): Promise<string | null> {
  try {
    const { words } = agentCommandOf(agent);
    const [program = ""] = words;
    const folders = program.includes("/") ? [agent.directory] : (process.env.PATH ?? "").split(delimiter);
    for (const folder of folders) if (await isProgram(resolve(folder, program))) return null;
    return program.includes("/")
      ? `${resolve(agent.directory, program)} is no program that can be started: it must be there, and executable`
      : `${program} is in no folder of PATH`;
  } catch (error) {
    return messageOf(error);
  }
}

/** Why programs can not start in their folder: the system says of a folder that is missing that the program is. */
async function directoryFault({ directory }: Pick<AgentOptions, "directory">): Promise<string | null> {
  const isFolder = await stat(directory).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isFolder ? null : `${directory} is no folder on this host`;
}

async function isProgram(path: string): Promise<boolean> {
  const isOpen = await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
  return isOpen && (await stat(path)).isFile();
}

/** Why the worker of a kind can not begin. In a folder that is missing the system says that the program is. */
async function workerFault(kind: "reward" | "reference", config: JobConfig): Promise<string | null> {
  const worker = config.scorers?.[kind];
  if (!worker) return null;
  const { scorerFault } = await import("@muster/engine/worker");
  return (await directoryFault(worker)) ?? scorerFault(kind, worker, needsOfJob(config), process.env);
}

async function rewardFault(reward: string): Promise<string | null> {
  if (isProgramPath(reward)) return await programFault(reward);
  return isModulePath(reward) ? await importFault(reward, "reward") : null;
}

/** Why a module can not be imported, or has not what a job needs of it; `null` when it can. */
async function importFault(path: string, what: "reward" | "generate"): Promise<string | null> {
  const answer = await askModule(path, what);
  return "fault" in answer ? answer.fault : null;
}

/** An engine that knows nothing of the weights before it runs says by itself what it misses. */
async function folderFault(path: string, config: JobConfig, engines: EngineRegistry): Promise<string | null> {
  const { adapter, options } = config.engine.policy;
  const { checkWeights } = engines.of(adapter);
  try {
    if (checkWeights) await checkWeights(options, config, path);
    else await (await openModelFolder(path)).close();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}
