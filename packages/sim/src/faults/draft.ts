/** Bodies of messages that nobody said, from their schemas and from facts of the same name that were said. */
import type { Random } from "@muster/base";
import type { Kind, messageTable } from "@muster/protocol";

type Schema = (typeof messageTable)[Kind]["body"];
type Plain = Readonly<Record<string, unknown>>;

/** Facts that were said, by the names of their fields. */
export type Facts = ReadonlyMap<string, readonly unknown[]>;

/** In which share of the places a fact is one that was said. */
const knownShare = 0.7;
/** Drafts of one body. */
const triesMax = 32;
const numbers = [0, 1, 2, 3, 7, 100, 2 ** 31, 2 ** 40];

/** Every number, text and yes or no in bodies, by the name of its field. Pure. */
export function factsOf(bodies: readonly unknown[]): Facts {
  const facts = new Map<string, unknown[]>();
  for (const body of bodies) gather(body, "", facts);
  return facts;
}

function gather(value: unknown, name: string, facts: Map<string, unknown[]>): void {
  if (ArrayBuffer.isView(value) || value === undefined) return;
  if (typeof value !== "object" || value === null) {
    facts.set(name, [...(facts.get(name) ?? []), value]);
    return;
  }
  for (const [key, part] of Object.entries(value)) gather(part, Array.isArray(value) ? name : key, facts);
}

/**
 * Something that fits a schema, more or less: who drew it looks whether it does.
 *
 * @param name - Of the field that it is for.
 */
function draftOf(schema: Schema, facts: Facts, random: Random, name = ""): unknown {
  const { def } = schema as unknown as { readonly def: Plain & { readonly type: string } };
  const pick = <T>(all: readonly T[]): T | undefined => all[random.below(Math.max(1, all.length))];
  const inner = (part: unknown): unknown => draftOf(part as Schema, facts, random, name);
  const known = random.next() < knownShare ? pick(facts.get(name) ?? []) : undefined;
  switch (def.type) {
    case "object": {
      const fields = Object.entries(def.shape as Record<string, Schema>);
      const drawn = fields.map(([key, field]) => [key, draftOf(field, facts, random, key)] as const);
      return Object.fromEntries(drawn.filter(([, value]) => value !== undefined));
    }
    case "array":
      return Array.from({ length: 1 + random.below(3) }, () => inner(def.element));
    case "optional":
      return random.next() < 0.5 ? undefined : inner(def.innerType);
    case "nullable":
      return random.next() < 0.3 ? null : inner(def.innerType);
    case "default":
    case "readonly":
      return inner(def.innerType);
    case "union":
      return inner(pick(def.options as readonly unknown[]));
    case "enum":
      return pick(Object.values(def.entries as Plain));
    case "literal":
      return pick(def.values as readonly unknown[]);
    case "boolean":
      return random.next() < 0.5;
    case "number":
      return known ?? pick(numbers);
    case "string":
      return known ?? `x${random.below(3)}`;
    case "record":
      return { [String(draftOf(def.keyType as Schema, facts, random, name))]: inner(def.valueType) };
    default:
      return known;
  }
}

/** A body of this schema that is drawn with luck at most so often; `null` when none of them fits. */
export function drawBody(schema: Schema, facts: Facts, random: Random): unknown {
  for (let i = 0; i < triesMax; i++) {
    const drawn = schema.safeParse(draftOf(schema, facts, random));
    if (drawn.success) return drawn.data;
  }
  return null;
}
