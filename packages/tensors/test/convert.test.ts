import { type Random, randomOf, shuffled } from "@muster/base";
import { describe, expect, it } from "vitest";
import {
  bytesOf,
  type Conversion,
  type ConvertedTensor,
  castFloats,
  checkTies,
  convertTable,
  type ReadSource,
  type Rule,
  readConverted,
  reverseRules,
  type TensorSpec,
} from "../src/index.ts";
import { fuseNaively, type Labelled, labelled } from "./support/naive-convert.ts";

/** A model of a common form: grouped queries, gated layers, experts from the second layer on. */
function drawShape(random: Random) {
  const kvHeads = 1 + random.below(4);
  const shape = {
    layers: 2 + random.below(3),
    kvHeads,
    heads: kvHeads * (1 + random.below(3)),
    headSize: 1 + random.below(4),
  };
  return {
    ...shape,
    hidden: 1 + random.below(7),
    ffn: 1 + random.below(5),
    experts: 1 + random.below(12),
    vocab: 1 + random.below(9),
  };
}
type Shape = ReturnType<typeof drawShape>;

function tableOf({ layers, kvHeads, heads, headSize, hidden, ffn, experts, vocab }: Shape): TensorSpec[] {
  const specs: TensorSpec[] = [];
  const put = (name: string, ...shape: number[]): number => specs.push({ name, dtype: "f32", shape });
  put("model.embed_tokens.weight", vocab, hidden);
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    for (const [part, count] of Object.entries({ q: heads, k: kvHeads, v: kvHeads })) {
      put(`${at}.self_attn.${part}_proj.weight`, count * headSize, hidden);
      put(`${at}.self_attn.${part}_proj.bias`, count * headSize);
    }
    const places = layer === 0 ? [`${at}.mlp`] : Array.from({ length: experts }, (_, e) => `${at}.mlp.experts.${e}`);
    for (const place of places) for (const part of ["gate", "up"]) put(`${place}.${part}_proj.weight`, ffn, hidden);
    put(`${at}.input_layernorm.weight`, hidden);
  }
  put("lm_head.weight", vocab, hidden);
  return specs;
}

/** As Megatron has it: queries by their keys, gate and up in one, experts in one. */
function rulesOf({ kvHeads, heads, headSize, ffn, experts }: Shape, groups: number): Rule[] {
  const part = (name: string, count: number) => ({
    name: `model.layers.{layer}.self_attn.${name}`,
    rows: count * headSize,
  });
  const qkv = (end: string): Rule => ({
    kind: "fuse",
    parts: [part(`q_proj.${end}`, heads), part(`k_proj.${end}`, kvHeads), part(`v_proj.${end}`, kvHeads)],
    groups,
    into: `decoder.layers.{layer}.self_attention.linear_qkv.${end}`,
  });
  const gated = (from: string, to: string): Rule => ({
    kind: "fuse",
    parts: ["gate", "up"].map((name) => ({ name: `${from}.${name}_proj.weight`, rows: ffn })),
    into: to,
  });
  const expert = "decoder.layers.{layer}.mlp.experts.{expert}.linear_fc1.weight";
  return [
    ...[qkv("weight"), qkv("bias")],
    gated("model.layers.{layer}.mlp", "decoder.layers.{layer}.mlp.linear_fc1.weight"),
    gated("model.layers.{layer}.mlp.experts.{expert}", expert),
    { kind: "stack", each: expert, over: "expert", count: experts, into: "decoder.layers.{layer}.mlp.experts.weight" },
    {
      kind: "rename",
      from: "model.layers.{layer}.input_layernorm.weight",
      to: "decoder.layers.{layer}.input_norm.weight",
    },
    { kind: "tie", name: "lm_head.weight", to: "model.embed_tokens.weight" },
  ];
}

/** The target by hand. */
function naiveTarget(shape: Shape, groups: number): Map<string, Labelled> {
  const { layers, kvHeads, heads, headSize, hidden, ffn, experts, vocab } = shape;
  const target = new Map<string, Labelled>([
    ["model.embed_tokens.weight", labelled("model.embed_tokens.weight", vocab, hidden)],
  ]);
  for (let layer = 0; layer < layers; layer++) {
    const [from, to] = [`model.layers.${layer}`, `decoder.layers.${layer}`];
    for (const [end, width] of [
      ["weight", hidden],
      ["bias", 1],
    ] as const) {
      const parts = Object.entries({ q: heads, k: kvHeads, v: kvHeads }).map(([part, count]) =>
        labelled(`${from}.self_attn.${part}_proj.${end}`, count * headSize, width),
      );
      target.set(`${to}.self_attention.linear_qkv.${end}`, fuseNaively(parts, groups));
    }
    const gated = (place: string) =>
      fuseNaively(
        ["gate", "up"].map((part) => labelled(`${place}.${part}_proj.weight`, ffn, hidden)),
        1,
      );
    if (layer === 0) target.set(`${to}.mlp.linear_fc1.weight`, gated(`${from}.mlp`));
    else {
      const all = Array.from({ length: experts }, (_, e) => gated(`${from}.mlp.experts.${e}`));
      target.set(`${to}.mlp.experts.weight`, { width: hidden, rows: all.flatMap(({ rows }) => rows) });
    }
    target.set(`${to}.input_norm.weight`, labelled(`${from}.input_layernorm.weight`, hidden, 1));
  }
  return target;
}

const labelsOf = ({ runs }: ConvertedTensor): string[] =>
  runs.flatMap(({ source, start, elements }) => Array.from({ length: elements }, (_, i) => `${source}#${start + i}`));
const byName = (tensors: readonly TensorSpec[]) => [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
const specOf = ({ name, dtype, shape }: TensorSpec): TensorSpec => ({ name, dtype, shape });

describe("a conversion", () => {
  it.each(Array.from({ length: 40 }, (_, seed) => seed))(
    "moves every element as moving rows by hand does, and back (seed %i)",
    (seed) => {
      const random = randomOf(seed, 2);
      const shape = drawShape(random);
      const groups = random.below(2) === 0 ? 1 : shape.kvHeads;
      const table = shuffled(tableOf(shape), random);
      const rules = rulesOf(shape, groups);
      const { tensors, ties } = convertTable(table, rules);
      const naive = naiveTarget(shape, groups);
      expect(tensors.map(({ name }) => name).sort()).toEqual([...naive.keys()].sort());
      for (const tensor of tensors) {
        const { rows, width } = naive.get(tensor.name)!;
        expect(labelsOf(tensor)).toEqual(rows.flat());
        const [first = 1, ...rest] = tensor.shape;
        expect([first, ...rest].reduce((a, b) => a * b, 1)).toBe(rows.length * width);
      }
      expect(ties.map(({ left, to }) => [left.name, to.name])).toEqual([
        ["lm_head.weight", "model.embed_tokens.weight"],
      ]);
      const back = convertTable(tensors.map(specOf), reverseRules(rules)).tensors;
      expect(byName(back).map(specOf)).toEqual(byName(table));
      // There and back: each tensor is itself, from its begin to its end.
      const whole = new Map(tensors.map((tensor) => [tensor.name, labelsOf(tensor)]));
      for (const tensor of back) {
        const labels = tensor.runs.flatMap(({ source, start, elements }) =>
          whole.get(source)!.slice(start, start + elements),
        );
        const source = tensor.name === "lm_head.weight" ? "model.embed_tokens.weight" : tensor.name;
        expect(labels).toEqual(labels.map((_, i) => `${source}#${i}`));
      }
    },
  );

  const bytes = new Map<string, Uint8Array>();
  const read: ReadSource = async (name, target, from) =>
    target.set(bytes.get(name)!.subarray(from, from + target.length));
  const numbersOf = (specs: readonly TensorSpec[], random: Random): void => {
    bytes.clear();
    for (const spec of specs)
      bytes.set(
        spec.name,
        new Uint8Array(Float32Array.from({ length: bytesOf(spec) / 4 }, () => random.next() - 0.5).buffer),
      );
  };

  it("is read by any range, through its casts", async () => {
    const random = randomOf(3, 3);
    const shape = { ...drawShape(random), experts: 3, layers: 2 };
    const table = tableOf(shape);
    numbersOf(table, random);
    const cast: Rule = { kind: "cast", name: "decoder.layers.{layer}.mlp.experts.weight", from: "f32", to: "bf16" };
    const { tensors } = convertTable(table, [...rulesOf(shape, 1), cast]);
    for (const tensor of tensors) {
      const size = tensor.dtype === "bf16" ? 2 : 4;
      const plain = Buffer.concat(
        tensor.runs.map(({ source, start, elements }) =>
          bytes.get(source)!.subarray(4 * start, 4 * (start + elements)),
        ),
      );
      const whole = new Uint8Array((plain.length / 4) * size);
      castFloats({ dtype: "f32", bytes: plain }, { dtype: size === 2 ? "bf16" : "f32", bytes: whole });
      for (let i = 0; i < 8; i++) {
        const from = random.below(whole.length / size + 1);
        const target = new Uint8Array(size * random.below(whole.length / size - from + 1));
        await readConverted(read, tensor, target, from * size);
        expect(Buffer.compare(target, whole.subarray(from * size, from * size + target.length))).toBe(0);
      }
      const beyond = readConverted(read, tensor, new Uint8Array(2 * size), whole.length - size);
      await expect(beyond).rejects.toThrow("are no elements of");
    }
  });

  it("finds out when what is left out is not what it is said to be", async () => {
    const table = ["a", "b"].map((name): TensorSpec => ({ name, dtype: "f32", shape: [600_000] }));
    numbersOf(table, randomOf(4, 1));
    bytes.set("b", bytes.get("a")!.slice());
    const tied: Conversion = convertTable(table, [{ kind: "tie", name: "b", to: "a" }]);
    await checkTies(read, tied);
    bytes.get("b")![2_399_999]! ^= 1;
    await expect(checkTies(read, tied)).rejects.toThrow('"b" has other bytes than "a"');
  });

  const table: TensorSpec[] = [
    { name: "x.0.q", dtype: "f32", shape: [4, 3] },
    { name: "x.0.k", dtype: "f32", shape: [2, 3] },
    { name: "x.1.q", dtype: "f32", shape: [4, 3] },
    { name: "y", dtype: "bf16", shape: [4, 3] },
    { name: "i", dtype: "i64", shape: [1] },
  ];
  const part = (name: string, rows: number) => ({ name, rows });
  it.each<[string, Rule, RegExp]>([
    ["matches nothing", { kind: "rename", from: "z.{a}.q", to: "z" }, /rename z.{a}.q matches no tensor/],
    ["has a variable that stands for nothing", { kind: "rename", from: "y", to: "z.{a}" }, /{a} stands for nothing/],
    ["makes a name twice", { kind: "rename", from: "x.{a}.q", to: "same" }, /makes "same" a second time/],
    ["takes a name that is there", { kind: "rename", from: "y", to: "i" }, /makes "i" a second time/],
    [
      "lacks a part",
      { kind: "fuse", parts: [part("x.{a}.q", 4), part("x.{a}.k", 2)], into: "x.{a}" },
      /lacks part 1 of "x.1"/,
    ],
    ["finds other rows", { kind: "fuse", parts: [part("y", 5)], into: "z" }, /finds 4 rows and not 5 in "y"/],
    [
      "finds other types",
      { kind: "fuse", parts: [part("x.0.q", 4), part("y", 4)], into: "z" },
      /another form: "x.0.q" and "y"/,
    ],
    [
      "cannot cut into its groups",
      { kind: "fuse", parts: [part("x.0.q", 4), part("x.0.k", 2)], groups: 4, into: "z" },
      /into 4 groups/,
    ],
    [
      "splits into other rows",
      { kind: "split", from: "y", parts: [part("a", 1), part("b", 2)] },
      /finds 4 rows and not 3/,
    ],
    [
      "splits into no groups",
      { kind: "split", from: "y", parts: [part("a", 1), part("b", 3)], groups: 0 },
      /into 0 groups/,
    ],
    [
      "has a number too many",
      { kind: "stack", each: "x.{a}.q", over: "a", count: 1, into: "x" },
      /has no place for "x.1.q"/,
    ],
    ["lacks a number", { kind: "stack", each: "x.{a}.q", over: "a", count: 3, into: "x" }, /lacks part 2 of "x"/],
    [
      "has a dimension of another size",
      { kind: "unstack", from: "y", each: "y.{a}", over: "a", count: 3 },
      /finds 4 and not 3/,
    ],
    ["ties what is of another form", { kind: "tie", name: "y", to: "x.0.q" }, /no tensor of the form of "y"/],
    ["casts what is of another type", { kind: "cast", name: "i", from: "f32", to: "bf16" }, /finds i64 in "i"/],
    ["makes a name that no file may have", { kind: "rename", from: "y", to: "__proto__" }, /is reserved/],
  ])("is refused when a rule %s", (_, rule, reason) => {
    expect(() => convertTable(table, [rule])).toThrow(
      expect.objectContaining({
        code: "MUSTER_ERR_TENSOR_RULE_INVALID",
        message: expect.stringMatching(reason),
      }) as Error,
    );
  });

  it("is refused for a table that names a tensor twice", () => {
    expect(() => convertTable([table[0]!, table[0]!], [])).toThrow("two tensors have the same name");
  });
});
