/** What a newer minor version says, without the fields that this one does not know. */
import { z } from "zod";

type Known = (value: unknown) => unknown;

const asItIs: Known = (value) => value;
const made = new WeakMap<z.ZodType, Known>();

/** A copy of a value without the fields that a schema does not know; what is wrong with it stays, for the schema to say. Pure. */
export function withoutUnknown(schema: z.ZodType, value: unknown): unknown {
  return knownOf(schema)(value);
}

function knownOf(schema: z.ZodType): Known {
  const known = made.get(schema) ?? makeKnown(schema);
  made.set(schema, known);
  return known;
}

/** The types of schemas that the message table and the configuration are made of; whatever else there is holds no objects. */
function makeKnown(schema: z.ZodType): Known {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return knownOf(schema.unwrap() as unknown as z.ZodType);
  if (schema instanceof z.ZodArray) {
    const each = knownOf(schema.element as unknown as z.ZodType);
    return each === asItIs ? asItIs : (value) => (Array.isArray(value) ? value.map(each) : value);
  }
  if (schema instanceof z.ZodDiscriminatedUnion) return knownOfUnion(schema);
  return schema instanceof z.ZodObject ? knownOfObject(schema) : asItIs;
}

function knownOfObject(schema: z.ZodObject): Known {
  const fields = Object.entries(schema.shape).map(([key, of]) => [key, knownOf(of as unknown as z.ZodType)] as const);
  return (value) => {
    if (!isObject(value)) return value;
    return Object.fromEntries(
      fields.flatMap(([key, of]) => (Object.hasOwn(value, key) ? [[key, of(value[key])]] : [])),
    );
  };
}

/** By the value of the field that tells the options apart. */
function knownOfUnion({ def }: z.ZodDiscriminatedUnion): Known {
  const options = def.options.flatMap((option) =>
    option instanceof z.ZodObject ? [{ field: option.shape[def.discriminator], known: knownOf(option) }] : [],
  );
  return (value) => {
    const said = isObject(value) ? value[def.discriminator] : undefined;
    return options.find(({ field }) => z.safeParse(field, said).success)?.known(value) ?? value;
  };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}
