/** A job file, compiled with the engines, the prompts and the modules that it names. */
import { isAbsolute } from "node:path";
import { needsOfTask, openFileTask, taskOf } from "@muster/data";
import { promptsTask } from "@muster/protocol";
import {
  enginesNamedIn,
  type LoadedJob,
  type LoadJobOptions,
  loadJob,
  type NamedPrompts,
  promptsNamedIn,
  refuseFaults,
  type TaskShape,
} from "@muster/runtime/config";
import { openEngines } from "./engines.ts";
import { brokenModules } from "./modules/check-modules.ts";
import { tryTaskModule } from "./modules/try-task.ts";

/** Loads a job with the engines that it names. @throws as `loadJob` and {@link openEngines} */
export async function loadJobFile(options: Omit<LoadJobOptions, "describeTask" | "engines">): Promise<LoadedJob> {
  const engines = await openEngines(enginesNamedIn(options));
  const named = promptsNamedIn(options);
  const shapeOfOwn = await lookInto(named);
  const describeTask = (name: string): TaskShape =>
    named && (name === promptsTask || isAbsolute(name)) ? shapeOfOwn() : needsOfTask(taskOf(name));
  const job = loadJob({ ...options, engines, describeTask });
  refuseFaults(job, await brokenModules(job.config, engines));
  return job;
}

/**
 * Looks into where a job's prompts come from: a row or a module that makes no prompt should not be met after days.
 *
 * @returns What was found; it throws what is wrong with it where the job is compiled.
 */
async function lookInto(named: NamedPrompts | null): Promise<() => TaskShape> {
  try {
    const shape = named && ("module" in named ? await shapeOfModule(named) : await shapeOfFiles(named));
    return () => shape ?? { vocab: 1, maxContext: Number.MAX_SAFE_INTEGER };
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** Reads all rows of the files. */
async function shapeOfFiles({ files, plan }: Extract<NamedPrompts, { files: unknown }>): Promise<TaskShape> {
  const task = await openFileTask(files, plan);
  try {
    await task.check(sayEvery(sayMs));
  } finally {
    await task.close();
  }
  const { digest, vocab, tokenizerDigest, heldOutRows } = task;
  return { ...needsOfTask(task), prompts: { digest, vocab, tokenizerDigest, heldOutRows } };
}

/** How long a check goes on without a word. */
const sayMs = 5_000;

/** Says how far the check of the rows is, on standard error. */
function sayEvery(ms: number): (done: number, rows: number) => void {
  let saidMs = performance.now();
  return (done, rows) => {
    if (performance.now() - saidMs < ms) return;
    saidMs = performance.now();
    process.stderr.write(`muster: checking the prompts: ${done} of ${rows} rows\n`);
  };
}

/** Tries the module in a process of its own. */
async function shapeOfModule({ module, plan }: Extract<NamedPrompts, { module: unknown }>): Promise<TaskShape> {
  const taskModule = await tryTaskModule(module, plan);
  const { vocab, tokenizerDigest: tokenizer, maxTokens } = taskModule;
  return { vocab, maxContext: maxTokens + plan.maxNewTokens, tokenizer, taskModule };
}
