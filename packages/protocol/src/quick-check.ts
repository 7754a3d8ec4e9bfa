/**
 * The usual case of validation: a value that fits its schema in every detail. What a schema says is laid out as plain comparisons, several times as fast as
 * the schema itself. A yes means that the schema would give back an equal value, fields in the same order; after a no the schema decides, and says what is
 * wrong. So there is one truth, and one place where errors come from.
 */
import { z } from "zod";

/** True for values that a schema certainly takes as they are. */
export type QuickCheck = (value: unknown) => boolean;

const made = new WeakMap<z.ZodType, QuickCheck>();
const never: QuickCheck = () => false;

/** The quick check of a schema; one that never says yes where the schema has something that may change values, or has rules of its own. Pure. */
export function quickCheckOf(schema: z.ZodType): QuickCheck {
  let check = made.get(schema);
  if (!check) {
    check = makeCheck(schema) ?? never;
    made.set(schema, check);
  }
  return check;
}

/** `null` for what is not known here. */
function makeCheck(schema: z.ZodType): QuickCheck | null {
  if (schema instanceof z.ZodObject) return checkOfObject(schema);
  if (schema instanceof z.ZodArray) return checkOfArray(schema);
  if (schema instanceof z.ZodDiscriminatedUnion) return checkOfUnion(schema);
  if (schema instanceof z.ZodString) return checkOfString(schema);
  if (schema instanceof z.ZodNumber) return checkOfNumber(schema);
  if (rulesOf(schema).length > 0) return null;
  if (schema instanceof z.ZodOptional) return orElse(undefined, schema.unwrap());
  if (schema instanceof z.ZodNullable) return orElse(null, schema.unwrap());
  if (schema instanceof z.ZodEnum) return oneOf(schema.options);
  if (schema instanceof z.ZodLiteral) return oneOf([...schema.values]);
  if (schema instanceof z.ZodBoolean) return (value) => typeof value === "boolean";
  if (schema instanceof z.ZodUnknown) return () => true;
  if (schema instanceof z.ZodCustom) return checkOfCustom(schema);
  return null;
}

/** Of `z.instanceof`, which asks its function and nothing else. */
function checkOfCustom({ def }: z.ZodCustom): QuickCheck {
  const { fn } = def as unknown as { readonly fn: (value: unknown) => unknown };
  return (value) => fn(value) === true;
}

function oneOf(values: readonly unknown[]): QuickCheck {
  const [only] = values;
  if (values.length === 1) return (value) => value === only;
  const known = new Set(values);
  return (value) => known.has(value);
}

function orElse(none: null | undefined, inner: z.core.$ZodType): QuickCheck | null {
  const check = makeCheck(inner as z.ZodType);
  return check && ((value) => value === none || check(value));
}

interface Field {
  readonly key: string;
  readonly check: QuickCheck;
  readonly isOptional: boolean;
}

/** Plain objects with these fields and no others, in the order of the schema. */
function checkOfObject(schema: z.ZodObject): QuickCheck | null {
  const { catchall } = schema.def;
  if (rulesOf(schema).length > 0 || !(catchall instanceof z.ZodNever)) return null;
  const fields: Field[] = [];
  for (const [key, of] of Object.entries(schema.shape)) {
    const check = makeCheck(of as z.ZodType);
    if (!check) return null;
    fields.push({ key, check, isOptional: of instanceof z.ZodOptional });
  }
  return (value) => {
    if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false;
    let at = 0;
    for (const key in value) {
      let field = fields[at++];
      while (field?.isOptional && field.key !== key) field = fields[at++];
      if (field?.key !== key || !field.check((value as Readonly<Record<string, unknown>>)[key])) return false;
    }
    for (; at < fields.length; at++) if (!fields[at]?.isOptional) return false;
    return true;
  };
}

function checkOfArray(schema: z.ZodArray): QuickCheck | null {
  const each = makeCheck(schema.element as z.ZodType);
  const bounds = lengthsOf(rulesOf(schema));
  if (!each || !bounds) return null;
  const { least, most } = bounds;
  return (value) => {
    if (!Array.isArray(value) || value.length < least || value.length > most) return false;
    for (const item of value) if (!each(item)) return false;
    return true;
  };
}

/** By the value of the field that tells the options apart. */
function checkOfUnion(schema: z.ZodDiscriminatedUnion): QuickCheck | null {
  if (rulesOf(schema).length > 0) return null;
  const { discriminator, options } = schema.def;
  const checks = new Map<unknown, QuickCheck>();
  for (const option of options) {
    const check = makeCheck(option as z.ZodType);
    const said = option instanceof z.ZodObject ? option.shape[discriminator] : null;
    if (!check || !(said instanceof z.ZodLiteral)) return null;
    for (const one of said.values) checks.set(one, check);
  }
  return (value) =>
    typeof value === "object" &&
    value !== null &&
    (checks.get((value as Readonly<Record<string, unknown>>)[discriminator])?.(value) ?? false);
}

function checkOfString(schema: z.ZodString): QuickCheck | null {
  const rules = rulesOf(schema);
  const bounds = lengthsOf(rules.filter(({ check }) => check !== "string_format"));
  const patterns: RegExp[] = [];
  for (const { check, format, pattern } of rules) {
    if (check !== "string_format") continue;
    if (format !== "regex" || !(pattern instanceof RegExp) || pattern.global || pattern.sticky) return null;
    patterns.push(pattern);
  }
  if (!bounds || "coerce" in schema.def) return null;
  const { least, most } = bounds;
  return (value) =>
    typeof value === "string" &&
    value.length >= least &&
    value.length <= most &&
    (patterns.length === 0 || patterns.every((pattern) => pattern.test(value)));
}

function checkOfNumber(schema: z.ZodNumber): QuickCheck | null {
  if (schema instanceof z.ZodNumberFormat || "coerce" in schema.def) return null;
  let [isWhole, least, most] = [false, -Number.MAX_VALUE, Number.MAX_VALUE];
  let [above, below] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const { check, value, inclusive, format } of rulesOf(schema)) {
    if (check === "number_format" && format === "safeint") isWhole = true;
    else if (typeof value !== "number") return null;
    else if (check === "greater_than" && inclusive) least = Math.max(least, value);
    else if (check === "greater_than") above = Math.max(above, value);
    else if (check === "less_than" && inclusive) most = Math.min(most, value);
    else if (check === "less_than") below = Math.min(below, value);
    else return null;
  }
  // Comparisons with what is no number are false, and the largest numbers are finite.
  return (value) =>
    typeof value === "number" &&
    value >= least &&
    value <= most &&
    value > above &&
    value < below &&
    (!isWhole || Number.isSafeInteger(value));
}

/** A rule that is added to a type, as the schema keeps it. */
interface Rule {
  readonly check: string;
  readonly [field: string]: unknown;
}

/** The rules that a schema adds to its type. */
function rulesOf({ def }: z.ZodType): readonly Rule[] {
  return (def.checks ?? []).map((one) => one._zod.def as unknown as Rule);
}

/** Bounds of a length; `null` when there are other rules. */
function lengthsOf(rules: readonly Rule[]): { readonly least: number; readonly most: number } | null {
  let [least, most] = [0, Number.POSITIVE_INFINITY];
  for (const { check, minimum, maximum, length } of rules) {
    if (check === "min_length" && typeof minimum === "number") least = Math.max(least, minimum);
    else if (check === "max_length" && typeof maximum === "number") most = Math.min(most, maximum);
    else if (check === "length_equals" && typeof length === "number")
      [least, most] = [Math.max(least, length), Math.min(most, length)];
    else return null;
  }
  return { least, most };
}
