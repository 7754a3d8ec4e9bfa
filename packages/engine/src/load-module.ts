/** Rewards, generate functions and engines that a job brings along: modules of its own, loaded into the process that needs them. */
import type { GenerateContext, RewardFunction } from "@muster/base";
import { importModule, moduleUnloadable } from "@muster/data";
import { z } from "@muster/protocol";
import type { GenerateFunction } from "./collect/generate-function.ts";
import { withShortErrors } from "./collect/short-error.ts";
import type { Reward } from "./engine.ts";
import { errors } from "./errors.ts";
import type { EngineAdapter } from "./registry/adapter.ts";

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
  const generate = (await loadFunction(path, "generate")) as GenerateFunction;
  // A function of its own: the module's may be frozen, and may be named twice.
  return Object.assign((context: GenerateContext) => withShortErrors(() => generate(context)), { file: path });
}

/**
 * Loads an engine from a module: its default export, or its export `engine`, is a function of `{ z }` that makes the adapter; `z` makes the schema
 * of its table.
 *
 * @throws MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_MODULE_EXPORT, MUSTER_ERR_ENGINE_ADAPTER_INVALID
 */
export async function loadAdapter(path: string): Promise<EngineAdapter> {
  const make = (await loadFunction(path, "engine")) as (tools: { readonly z: typeof z }) => unknown;
  let made: unknown;
  try {
    made = await make({ z });
  } catch (error) {
    throw moduleUnloadable(path, error);
  }
  const { error } = adapterSchema.safeParse(made);
  const [issue] = error?.issues ?? [];
  if (issue) throw errors.EngineAdapterInvalid({ path, reason: `${issue.path.join(".")} ${issue.message}`.trim() });
  return made as EngineAdapter;
}

const method = z.custom<(...given: never[]) => unknown>((value) => typeof value === "function", "must be a function");

const adapterSchema = z
  .looseObject({
    kind: z.string().regex(/^[a-z][a-z0-9_]{0,31}$/, "must be 1 to 32 of a-z, 0-9 and _"),
    roles: z.array(z.enum(["policy", "rollout"])).min(1),
    table: z.undefined("must be left out: the table of an engine is engine.<kind>").optional(),
    schema: z.instanceof(z.ZodObject),
    build: method,
    describe: method,
    check: method,
    doctor: method,
    checkWeights: method.optional(),
    openPolicy: method.optional(),
    openRollout: method.optional(),
  })
  .refine(({ roles, openPolicy }) => roles.includes("policy") === (openPolicy !== undefined), {
    message: "must have openPolicy when, and only when, its roles have policy",
  })
  .refine(({ roles, openRollout }) => roles.includes("rollout") === (openRollout !== undefined), {
    message: "must have openRollout when, and only when, its roles have rollout",
  });

async function loadFunction(path: string, name: string): Promise<unknown> {
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
