/** Texts for people: the one kind of value that may be cut so that a message fits its schema. */
import { clipText } from "@muster/base";
import { z } from "zod";

const bounds = new WeakMap<z.ZodType, number>();

/** Schema of a text for people: whoever says a longer one says its beginning. Ids, paths and names of hosts are none. */
export function clippedText(charsMax: number): z.ZodString {
  const schema = z.string().max(charsMax);
  bounds.set(schema, charsMax);
  return schema;
}

/** Cuts the texts in a value; the same value when there is nothing to cut. */
export type Clip = (value: unknown) => unknown;

/** How values of a schema are cut; `null` when nothing in them may be. Pure. */
export function clipOf(schema: z.ZodType): Clip | null {
  const charsMax = bounds.get(schema);
  if (charsMax !== undefined) return (value) => (typeof value === "string" ? clipText(value, charsMax) : value);
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable)
    return clipOf(schema.unwrap() as unknown as z.ZodType);
  if (schema instanceof z.ZodArray) return clipOfArray(schema.element as unknown as z.ZodType);
  return schema instanceof z.ZodObject ? clipOfObject(schema) : null;
}

function clipOfArray(element: z.ZodType): Clip | null {
  const clip = clipOf(element);
  if (!clip) return null;
  return (value) => {
    if (!Array.isArray(value)) return value;
    const clipped = value.map(clip);
    return clipped.some((item, i) => item !== value[i]) ? clipped : value;
  };
}

function clipOfObject(schema: z.ZodObject): Clip | null {
  const clips = Object.entries(schema.shape).flatMap(([key, of]) => {
    const clip = clipOf(of as unknown as z.ZodType);
    return clip ? [{ key, clip }] : [];
  });
  if (clips.length === 0) return null;
  return (value) => {
    if (typeof value !== "object" || value === null) return value;
    const fields = value as Readonly<Record<string, unknown>>;
    const changed = clips.flatMap(({ key, clip }) => {
      const clipped = clip(fields[key]);
      return clipped === fields[key] ? [] : [[key, clipped] as const];
    });
    return changed.length === 0 ? value : { ...fields, ...Object.fromEntries(changed) };
  };
}
