/** Engines that a job brings along: modules of its own. */
import { moduleUnloadable } from "@muster/data/import-module";
import { z } from "@muster/protocol";
import { errors } from "./errors.ts";
import { loadFunction } from "./modules/load-function.ts";
import type { EngineAdapter } from "./registry/adapter.ts";

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
