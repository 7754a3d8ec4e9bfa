/** An engine's own table of a job file, read out of its schema: one source for keys, defaults, descriptions and checks. */
import { z } from "@muster/protocol";
import { errors } from "../errors.ts";

/** A value of a table. */
type Value = string | number | boolean;

/** One key of a table. */
interface EngineKey {
  readonly name: string;
  readonly kind: "text" | "optional-text" | "integer" | "number" | "boolean";
  readonly default: Value;
  readonly says: string;
}

/** A table as the loader of job files knows it. */
export interface EngineTable {
  readonly table: string;
  readonly keys: readonly EngineKey[];
  /** What the schema finds wrong with values that are all there. */
  faultsOf(options: Readonly<Record<string, Value>>): readonly { readonly name: string; readonly fault: string }[];
}

/** Most keys of one table. */
const keysMax = 64;

const propertySchema = z.looseObject({
  type: z.enum(["string", "integer", "number", "boolean"]),
  default: z.union([z.string(), z.number(), z.boolean()]),
  description: z.string().min(1).max(500),
});

/**
 * Reads the table of a schema. Pure.
 *
 * @throws MUSTER_ERR_ENGINE_TABLE naming the key that is no text, number or boolean with a default and a description
 */
export function tableOfSchema(table: string, schema: z.ZodObject): EngineTable {
  const { properties = {} } = z.toJSONSchema(schema, { io: "input" }) as {
    readonly properties?: Record<string, unknown>;
  };
  const entries = Object.entries(properties);
  if (entries.length > keysMax)
    throw errors.EngineTable({ table, key: `${entries.length} keys`, reason: `at most ${keysMax}` });
  const keys = entries.map(([name, property]): EngineKey => {
    const { data, error } = propertySchema.safeParse(property);
    if (!data || !/^[a-z][a-z0-9_]*$/.test(name)) {
      const reason = error
        ? `its ${error.issues[0]?.path.join(".")}: ${error.issues[0]?.message}`
        : "names are a-z, 0-9 and _";
      throw errors.EngineTable({ table, key: name, reason });
    }
    const kind = data.type === "string" ? (data.default === "" ? "optional-text" : "text") : data.type;
    return { name, kind, default: data.default, says: data.description };
  });
  const faultsOf: EngineTable["faultsOf"] = (options) => {
    const issues = schema.safeParse(options).error?.issues ?? [];
    return issues.map(({ path, message }) => ({
      name: String(path[0] ?? ""),
      fault: message.replace(/^Invalid (input|option): /, "").replace(/^Too (small|big): /, ""),
    }));
  };
  return { table, keys, faultsOf };
}
