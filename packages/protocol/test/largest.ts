/** How many bytes the largest body takes that a schema lets through, from the schema itself. */
import { z } from "zod";

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly propertyNames?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly maxItems?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
}

/** Bytes that a writing takes at most, for each character and for what stands around a value. */
export interface Writing {
  readonly character: number;
  readonly around: number;
  readonly number: number;
}

/** A character is one UTF-16 unit. */
export const packed: Writing = { character: 3, around: 5, number: 9 };
/** Characters below 32 are written as six. */
export const json: Writing = { character: 6, around: 4, number: 24 };

/** Ids have no length in their schema, only a pattern. */
const idLength = 48;
const idPattern = /\{0,47\}/;

/** Bytes of the largest value of a schema, an upper bound; infinite where the schema has none. */
export function largestBytes(schema: z.ZodType, writing: Writing): number {
  return bytesOf(z.toJSONSchema(schema, { unrepresentable: "any", io: "input" }) as Schema, writing);
}

function bytesOf(schema: Schema, writing: Writing): number {
  const { character, around, number } = writing;
  const choices = schema.enum ?? (schema.const === undefined ? null : [schema.const]);
  if (choices) return Math.max(...choices.map((each) => around + JSON.stringify(each).length));
  const others = schema.anyOf ?? schema.oneOf;
  if (others) return Math.max(...others.map((one) => bytesOf(one, writing)));
  switch (schema.type) {
    case "object":
      return around + objectBytes(schema, writing);
    case "array":
      return around + (schema.maxItems ?? Number.POSITIVE_INFINITY) * (1 + bytesOf(schema.items ?? {}, writing));
    case "string":
      if (schema.pattern !== undefined && idPattern.test(schema.pattern)) return around + idLength;
      return around + character * (schema.maxLength ?? Number.POSITIVE_INFINITY);
    case "integer":
    case "number":
      return number;
    case "boolean":
    case "null":
      return around;
    default:
      return Number.POSITIVE_INFINITY;
  }
}

function objectBytes({ properties = {}, additionalProperties, propertyNames }: Schema, writing: Writing): number {
  const rest = typeof additionalProperties === "object" ? additionalProperties : null;
  if (rest && propertyNames?.enum === undefined) return Number.POSITIVE_INFINITY;
  const fields = rest
    ? (propertyNames?.enum ?? []).map((key) => [String(key), rest] as const)
    : Object.entries(properties);
  return fields.reduce((sum, [key, of]) => sum + writing.around + key.length + bytesOf(of, writing), 0);
}
