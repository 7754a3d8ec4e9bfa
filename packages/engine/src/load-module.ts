/** Rewards and generate functions that a job brings along: modules of its own, loaded into the replica's process. */
import { pathToFileURL } from "node:url";
import { messageOf } from "@muster/base";
import type { GenerateFunction } from "./collect/generate-function.ts";
import type { Reward, RewardInput } from "./engine.ts";
import { errors } from "./errors.ts";

/** Judges one response: what the module of a reward exports. */
export type RewardFunction = (input: RewardInput, signal: AbortSignal) => number | Promise<number>;

/**
 * Loads a reward from a module: its default export, or its export `reward`.
 *
 * @throws MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_MODULE_EXPORT
 */
export async function loadReward(path: string): Promise<Reward> {
  const score = (await loadFunction(path, "reward")) as RewardFunction;
  return { name: path, score: async (input, signal) => await score(input, signal) };
}

/** Loads a generate function from a module: its default export, or its export `generate`. @throws as {@link loadReward} */
export async function loadGenerate(path: string): Promise<GenerateFunction> {
  return (await loadFunction(path, "generate")) as GenerateFunction;
}

async function loadFunction(path: string, name: string): Promise<unknown> {
  if (/\.[cm]?ts$/.test(path) && !readsTypeScript())
    throw errors.ModuleUnloadable({
      path,
      reason: `Node ${process.versions.node} does not read TypeScript; use Node 22.18 or newer, or a .mjs file`,
    });
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (error) {
    throw errors.ModuleUnloadable({ path, reason: messageOf(error) }, error);
  }
  const found = loaded[name] ?? loaded.default;
  if (typeof found !== "function") throw errors.ModuleExport({ path, name, found: typeof found });
  return found;
}

/** True when this Node strips types by itself. */
function readsTypeScript(): boolean {
  return Boolean((process.features as { readonly typescript?: unknown }).typescript);
}
