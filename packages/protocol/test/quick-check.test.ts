import { mixSeed, type Random, randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { decodeMessage, type Kind, messageTable, pack } from "../src/index.ts";
import { messageKinds } from "../src/internal.ts";
import { quickCheckOf } from "../src/quick-check.ts";
import { sampleMessage } from "./samples.ts";

const seed = Number(process.env.MUSTER_TEST_SEED ?? Date.now() % 1_000_000);

/** Kinds that a configuration is in: its schema fills in what is missing. */
const unchecked: ReadonlySet<Kind> = new Set(
  messageKinds.filter((kind) => !quickCheckOf(bodyOf(kind))(sampleBody(kind))),
);

function bodyOf(kind: Kind): z.ZodType {
  return messageTable[kind].body;
}
function sampleBody(kind: Kind): unknown {
  return structuredClone(bodyOf(kind).parse(sampleMessage(kind).body));
}

type Holder = Record<string | number, unknown>;

/** Every object and array in a value, itself included. */
function holdersIn(value: unknown): Holder[] {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return [];
  return [value as Holder, ...Object.values(value).flatMap(holdersIn)];
}

const odd: readonly (() => unknown)[] = [
  ...[Number.NaN, Infinity, -Infinity, -1, -0, 0, 1, 1.5, 2 ** 53, 2 ** 53 - 1, 1e308].map((one) => () => one),
  ...["", "x", "a-b", "A B", "completed", "stop", "x".repeat(5_000)].map((one) => () => one),
  ...[null, undefined, true, 10n].map((one) => () => one),
  ...[() => [], () => [0], () => ({}), () => new Uint8Array(3), () => Buffer.alloc(2), () => new Float32Array(1)],
  ...[() => new Array(5_000).fill(0), () => new Date(0), () => Object.create({ version: 1, from: 0, to: 1 })],
];

/** Something else in one place: another value, a field more, less or elsewhere, an element more or less. */
function mutated(value: unknown, random: Random): unknown {
  const whole = { it: structuredClone(value) };
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random.next() * of.length)] as T;
  const holder = pick(holdersIn(whole.it));
  if (!holder) return pick(odd)();
  const keys = Object.keys(holder);
  const key = pick(keys) ?? "extra";
  const put = (to: string | number): void => {
    holder[to] = random.next() < 0.5 ? pick(odd)() : structuredClone(pick(keys.map((one) => holder[one])));
  };
  const move = (): void => {
    const moved = holder[key];
    delete holder[key];
    holder[key] = moved;
  };
  pick([() => put(key), () => put(key), () => delete holder[key], () => put("extra"), () => put(keys.length), move])();
  return whole.it;
}

/** A value with its fields in their order, also those that hold `undefined`: two that look alike are alike. */
const shown = (value: unknown): string =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" || one === undefined ? `(${one})` : one));

describe(`what is checked quickly, seed ${seed} (MUSTER_TEST_SEED)`, () => {
  it("is all but what is filled in", () => {
    expect([...unchecked].filter((kind) => kind.startsWith("groups."))).toEqual([]);
    expect(unchecked.size).toBeLessThan(messageKinds.length / 10);
  });

  it.each(messageKinds)(
    "%s: a yes is the schema's yes, and a no of a whole value in order is the schema's no",
    (kind) => {
      const schema = bodyOf(kind);
      const check = quickCheckOf(schema);
      const sample = sampleBody(kind);
      const random = randomOf(mixSeed(seed, messageKinds.indexOf(kind)));
      let [yes, no] = [0, 0];
      for (let round = 0; round < 400; round++) {
        const value = round === 0 ? sample : mutated(round % 2 ? sample : mutated(sample, random), random);
        const said = schema.safeParse(value);
        const isAsItIs = said.success && shown(said.data) === shown(value);
        // What the quick check does not know it leaves to the schema: never the other way around.
        if (check(value)) expect(isAsItIs, shown(value)).toBe(true);
        else if (!unchecked.has(kind) && said.success) expect(shown(said.data), "a no").not.toBe(shown(value));
        if (said.success) yes += 1;
        else no += 1;
      }
      expect(yes).toBeGreaterThan(0);
      expect(no).toBeGreaterThan(0);
    },
  );

  it("is refused with the field that is wrong, as the schema says it", () => {
    const message = sampleMessage("groups.batch");
    for (const [field, value] of [
      ["promptLength", -1],
      ["reward", Number.NaN],
      ["tokens", "x"],
      ["status", "done"],
    ] as const) {
      const body = structuredClone(message.body) as unknown as { groups: { trajectories: Holder[] }[] };
      body.groups[0]!.trajectories[0]![field] = value;
      expect(() => decodeMessage(pack({ ...message, body }))).toThrow(
        `groups.batch.groups.0.trajectories.0.${field}: `,
      );
    }
  });
});

describe("a schema that is not known", () => {
  it.each([
    ["changes values", z.strictObject({ a: z.string().transform((text) => text.length) })],
    ["fills in", z.strictObject({ a: z.number().default(1) })],
    ["has a rule of its own", z.strictObject({ a: z.string().refine((text) => text === "a") })],
    ["has a rule of its own about all fields", z.strictObject({ a: z.string() }).refine(({ a }) => a === "a")],
    [
      "has a rule of its own about what may be absent",
      z.strictObject({
        a: z
          .string()
          .optional()
          .refine(() => false),
      }),
    ],
    [
      "has a rule of its own about what may be null",
      z.strictObject({
        a: z
          .string()
          .nullable()
          .refine(() => false),
      }),
    ],
    ["has lengths that exclude each other", z.strictObject({ a: z.string().min(2).length(1) })],
    ["leaves fields out", z.object({ a: z.string() })],
    ["keeps fields", z.looseObject({ a: z.string() })],
    ["is a pattern that remembers", z.strictObject({ a: z.string().regex(/a/g) })],
    ["is a format", z.strictObject({ a: z.email() })],
    ["makes strings", z.strictObject({ a: z.coerce.string() })],
    ["has multiples", z.strictObject({ a: z.number().multipleOf(2) })],
    ["trims", z.strictObject({ a: z.string().trim() })],
  ] as const)("because it %s is never answered for", (_, schema) => {
    for (const a of ["a", "a@b.de", "b", 2, 1]) expect(quickCheckOf(schema)({ a })).toBe(false);
  });

  it("decides about what is inherited, and about fields in another order", () => {
    const schema = z.strictObject({ a: z.number(), b: z.number().optional(), c: z.number() });
    const check = quickCheckOf(schema);
    expect(
      [
        { a: 1, b: 2, c: 3 },
        { a: 1, c: 3 },
        { a: 1, b: undefined, c: 3 },
      ].map(check),
    ).toEqual([true, true, true]);
    expect(
      [{ a: 1, b: 2 }, { c: 3, a: 1 }, { a: 1, c: 3, d: 4 }, { a: 1, c: 3, b: 2 }, {}, []].map(check),
    ).not.toContain(true);
    expect(check(Object.create({ a: 1, c: 3 }))).toBe(false);
  });

  it("knows bounds on either side", () => {
    const schema = z.array(z.number().gt(0).lt(2).max(5)).min(1).max(2);
    const values = [[1], [1, 1.5], [], [1, 1, 1], [0], [2], [Number.NaN], [Infinity], ["1"]];
    expect(values.map(quickCheckOf(schema))).toEqual(values.map((value) => schema.safeParse(value).success));
  });
});
