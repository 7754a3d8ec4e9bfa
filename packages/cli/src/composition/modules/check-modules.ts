/** Whether the modules and the weights that a job brings along can be loaded: asked before anything starts, so that no replica dies of it for ever. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { messageOf } from "@muster/base";
import { isModulePath, isProgramPath } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { openModelFolder } from "@muster/tensors";
import { programFault } from "./program-fault.ts";

/** Time to import a module. */
const importMs = 20_000;

/** Memory that a module may take while it is imported. */
const importMegabytes = 1_024;

/** Faults of what a job brings along, by the key that names it. */
export async function brokenModules({ task, rollout, weights }: JobConfig): Promise<ReadonlyMap<string, string>> {
  const checks: Readonly<Record<string, Promise<string | null>>> = {
    "task.reward": rewardFault(task.reward),
    "rollout.generate": rollout.generate === null ? Promise.resolve(null) : importFault(rollout.generate, "generate"),
    "weights.source": weights.kind === "folder" ? folderFault(weights.path) : Promise.resolve(null),
  };
  const faults = new Map<string, string>();
  for (const [key, check] of Object.entries(checks)) {
    const fault = await check;
    if (fault !== null) faults.set(key, fault);
  }
  return faults;
}

async function rewardFault(reward: string): Promise<string | null> {
  if (isProgramPath(reward)) return await programFault(reward);
  return isModulePath(reward) ? await importFault(reward, "reward") : null;
}

/** Why a module can not be imported, or has not what a job needs of it; `null` when it can. */
async function importFault(path: string, what: "reward" | "generate"): Promise<string | null> {
  const child = fork(fileURLToPath(new URL("./import-module.js", import.meta.url)), [path, what], {
    execArgv: [`--max-old-space-size=${importMegabytes}`],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  let late: NodeJS.Timeout | undefined;
  try {
    return await new Promise<string | null>((resolve) => {
      late = setTimeout(() => resolve(`importing ${path} did not end within ${importMs / 1_000} s`), importMs);
      child.once("message", (answer) => resolve((answer as { readonly fault: string | null }).fault));
      child.once("error", (error) => resolve(`${path} can not be tried: ${messageOf(error)}`));
      child.once("exit", (code, signal) =>
        resolve(`importing ${path} ended the process with ${signal ?? `exit code ${code}`}`),
      );
    });
  } finally {
    clearTimeout(late);
    child.kill("SIGKILL");
  }
}

async function folderFault(path: string): Promise<string | null> {
  try {
    await (await openModelFolder(path)).close();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}
