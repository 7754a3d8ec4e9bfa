/** The engines that this program knows. Each is loaded when a job or a replica needs it, never before. */
import { isAbsolute } from "node:path";
import { needsOfTask, openFileTask, taskOf } from "@muster/data";
import { type EngineAdapter, EngineRegistry, loadAdapter } from "@muster/engine";
import { promptsTask } from "@muster/protocol";
import {
  enginesNamedIn,
  type LoadedJob,
  type LoadJobOptions,
  loadJob,
  promptsNamedIn,
  refuseFaults,
  type TaskShape,
} from "@muster/runtime";
import { brokenModules } from "./modules/check-modules.ts";

const builtIn: Readonly<Record<string, () => Promise<EngineAdapter>>> = {
  embedded: async () => (await import("@muster/engine/embedded")).embeddedAdapter,
};

/**
 * Loads engines by name or absolute path. A name that is not known is left out: the registry names the known ones where it is asked for it.
 *
 * @throws what a module throws that can not be loaded
 */
export async function openEngines(names: readonly string[]): Promise<EngineRegistry> {
  const adapters: [string, EngineAdapter][] = [];
  for (const name of new Set(names)) {
    const adapter = isAbsolute(name) ? await loadAdapter(name) : await builtIn[name]?.();
    if (adapter) adapters.push([name, adapter]);
  }
  return new EngineRegistry(adapters, Object.keys(builtIn));
}

/** Loads a job with the engines that it names. @throws as `loadJob` and {@link openEngines} */
export async function loadJobFile(options: Omit<LoadJobOptions, "describeTask" | "engines">): Promise<LoadedJob> {
  const engines = await openEngines(enginesNamedIn(options));
  const shapeOfFiles = await lookIntoFiles(options);
  const describeTask = (name: string): TaskShape => (name === promptsTask ? shapeOfFiles() : needsOfTask(taskOf(name)));
  const job = loadJob({ ...options, engines, describeTask });
  refuseFaults(job, await brokenModules(job.config));
  return job;
}

/**
 * Looks into the files of a job's prompts, all of them: a row that makes no prompt should not be met after days.
 *
 * @returns What they are; it throws what is wrong with them where the job is compiled.
 */
async function lookIntoFiles(options: Omit<LoadJobOptions, "describeTask" | "engines">): Promise<() => TaskShape> {
  const named = promptsNamedIn(options);
  try {
    const task = named && (await openFileTask(named.files, named.plan));
    if (!task) return () => ({ vocab: 1, maxContext: Number.MAX_SAFE_INTEGER });
    try {
      await task.check();
    } finally {
      await task.close();
    }
    const { digest, vocab, tokenizerDigest, heldOutRows } = task;
    return () => ({ ...needsOfTask(task), prompts: { digest, vocab, tokenizerDigest, heldOutRows } });
  } catch (error) {
    return () => {
      throw error;
    };
  }
}
