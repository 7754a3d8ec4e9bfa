/** Rewards and generate functions that a job brings along, loaded into the process that runs them. */
import type { GenerateModule, RewardFunction } from "@muster/base";
import { importModule } from "@muster/data/import-module";
import type { GenerateFunction, SampleContext } from "../collect/generate-function.ts";
import { withShortErrors } from "../collect/short-error.ts";
import type { Reward } from "../engine.ts";
import { errors } from "../errors.ts";

/**
 * Loads a reward from a module: its export `reward`, the `reward` of its task, or its default export.
 *
 * @throws MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_MODULE_EXPORT
 */
export async function loadReward(path: string): Promise<Reward> {
  const score = (await loadFunction(path, "reward")) as RewardFunction;
  return { name: path, score: (input, signal) => withShortErrors(() => score(input, signal)) };
}

/** Loads a generate function from a module: its default export, or its export `generate`. @throws as {@link loadReward} */
export async function loadGenerate(path: string): Promise<GenerateFunction> {
  const generate = (await loadFunction(path, "generate")) as GenerateModule;
  // A function of its own: the module's may be frozen, and may be named twice.
  return Object.assign((context: SampleContext) => withShortErrors(() => generate(context)), { file: path });
}

/** Loads the function of a module that is exported under this name, as default, or by its task. @throws as {@link loadReward} */
export async function loadFunction(path: string, name: string): Promise<unknown> {
  const loaded = await importModule(path);
  const found = loaded[name] ?? methodOf(loaded.task ?? loaded.default, name) ?? loaded.default;
  if (typeof found !== "function") throw errors.ModuleExport({ path, name, found: typeof found });
  return found;
}

/** Of a module that exports a task, which has what is wanted among other things. */
function methodOf(exported: unknown, name: string): unknown {
  if (typeof exported !== "object" || exported === null) return undefined;
  const found = (exported as Readonly<Record<string, unknown>>)[name];
  return typeof found === "function" ? found.bind(exported) : undefined;
}
