/** GGUF files, read back by a reader of their own that knows the format and nothing of the writer. */
import { describe, expect, it } from "vitest";
import { encodeLlamaGguf, type LlamaGguf, placeDensely } from "../src/index.ts";

/** Reads the header, and the tensors as floats. */
function read(file: Uint8Array) {
  const bytes = Buffer.from(file);
  let at = 0;
  const pass = (count: number): number => {
    at += count;
    return at - count;
  };
  const u32 = () => bytes.readUInt32LE(pass(4));
  const u64 = () => Number(bytes.readBigUInt64LE(pass(8)));
  const text = () => {
    const length = u64();
    at += length;
    return bytes.toString("utf8", at - length, at);
  };
  const readers: Record<number, () => unknown> = {
    4: u32,
    5: () => bytes.readInt32LE(pass(4)),
    6: () => bytes.readFloatLE(pass(4)),
    7: () => bytes.readUInt8(pass(1)) === 1,
    8: text,
    9: () => {
      const [type, count] = [u32(), u64()];
      return Array.from({ length: count }, () => readers[type]!());
    },
  };
  expect(bytes.toString("latin1", 0, 4)).toBe("GGUF");
  at = 4;
  expect(u32()).toBe(3);
  const [tensors, values] = [u64(), u64()];
  const header = Object.fromEntries(Array.from({ length: values }, () => [text(), readers[u32()]!()]));
  const table = Array.from({ length: tensors }, () => {
    const name = text();
    const sizes = Array.from({ length: u32() }, u64);
    expect(u32()).toBe(0);
    return { name, sizes, offset: u64() };
  });
  const start = Math.ceil(at / 32) * 32;
  const found = table.map(({ name, sizes, offset }) => {
    expect(offset % 32).toBe(0);
    const count = sizes.reduce((product, size) => product * size, 1);
    return [
      name,
      { sizes, values: Array.from({ length: count }, (_, i) => bytes.readFloatLE(start + offset + 4 * i)) },
    ];
  });
  return { header, tensors: Object.fromEntries(found) as Record<string, { sizes: number[]; values: number[] }> };
}

const config = {
  ...{ model_type: "llama", vocab_size: 4, hidden_size: 8, intermediate_size: 3, num_hidden_layers: 1 },
  ...{
    num_attention_heads: 2,
    num_key_value_heads: 1,
    max_position_embeddings: 16,
    rms_norm_eps: 1e-5,
    rope_theta: 1e4,
  },
};
const at = "model.layers.0";
const tensors = placeDensely(
  (
    [
      ["model.embed_tokens.weight", [4, 8]],
      [`${at}.self_attn.q_proj.weight`, [8, 8]],
      [`${at}.self_attn.k_proj.weight`, [4, 8]],
      [`${at}.self_attn.v_proj.weight`, [4, 8]],
      [`${at}.self_attn.o_proj.weight`, [8, 8]],
      [`${at}.mlp.gate_proj.weight`, [3, 8]],
      [`${at}.mlp.up_proj.weight`, [3, 8]],
      [`${at}.mlp.down_proj.weight`, [8, 3]],
      [`${at}.input_layernorm.weight`, [8]],
      [`${at}.post_attention_layernorm.weight`, [8]],
      ["model.norm.weight", [8]],
    ] as const
  ).map(([name, shape]) => ({ name, dtype: "f32" as const, shape: [...shape] })),
);
const last = tensors.at(-1)!;
const floats = Float32Array.from({ length: (last.offsetBytes + last.sizeBytes) / 4 }, (_, i) => i);
const model: LlamaGguf = {
  ...{ config, tensors, weights: new Uint8Array(floats.buffer), name: "m", vocabulary: ["$", "a", " "], endToken: 0 },
};
const written = (change: Partial<LlamaGguf> = {}) => read(Buffer.concat(encodeLlamaGguf({ ...model, ...change })));

describe("a Llama as GGUF", () => {
  it("says its shape, and its tokens as bytes that stand for themselves or are moved", () => {
    expect(written().header).toMatchObject({
      ...{ "general.architecture": "llama", "llama.block_count": 1, "llama.rope.dimension_count": 4 },
      ...{ "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1, "llama.feed_forward_length": 3 },
      "tokenizer.ggml.tokens": ["<|end|>", "a", "\u0120", "<|unused 3|>"],
      "tokenizer.ggml.token_type": [3, 1, 1, 5],
      "tokenizer.ggml.eos_token_id": 0,
    });
    const odd = written({ vocabulary: ["$", "é", "\n", "ÿ"] }).header["tokenizer.ggml.tokens"];
    expect(odd).toEqual(["<|end|>", "Ã©", "\u010a", "Ã¿"]);
  });

  it("has every number under the name of llama.cpp, with the sizes turned round", () => {
    const { tensors: found } = written();
    expect(Object.keys(found)).toEqual([
      ...["token_embd.weight", "blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"],
      ...["blk.0.attn_output.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"],
      ...["blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"],
    ]);
    expect(found["blk.0.ffn_down.weight"]?.sizes).toEqual([3, 8]);
    expect(found["output_norm.weight"]?.values).toEqual([...floats.slice(-8)]);
    expect(
      Object.values(found)
        .flatMap(({ values }) => values)
        .sort((a, b) => a - b),
    ).toEqual([...floats]);
  });

  it("has the rows of queries and keys in pairs, head by head, and of nothing else", () => {
    const rowsOf = (name: string) => written().tensors[name]!.values.filter((_, i) => i % 8 === 0);
    const [q, k, v] = [32, 96, 128];
    expect(rowsOf("blk.0.attn_q.weight")).toEqual([0, 2, 1, 3, 4, 6, 5, 7].map((row) => q + 8 * row));
    expect(rowsOf("blk.0.attn_k.weight")).toEqual([0, 2, 1, 3].map((row) => k + 8 * row));
    expect(rowsOf("blk.0.attn_v.weight")).toEqual([0, 1, 2, 3].map((row) => v + 8 * row));
  });

  it.each<[Partial<LlamaGguf>, RegExp]>([
    [{ config: { ...config, model_type: "qwen2" } }, /GGUF: model_type is qwen2; it must be llama/],
    [{ config: { ...config, rope_theta: undefined } }, /rope_theta is absent; it must be a positive number/],
    [{ config: { ...config, rope_scaling: { factor: 8 } } }, /rope_scaling is \{"factor":8\}; it must be absent/],
    [{ vocabulary: ["$", "a", "b", "c", "d"] }, /vocabulary is 5; it must be at most vocab_size = 4 tokens/],
    [
      { tensors: [{ ...tensors[0]!, name: "model.layers.0.self_attn.q_proj.bias" }] },
      /tensor is .*bias; it must be one/,
    ],
    [{ tensors: [{ ...tensors[0]!, dtype: "bf16" }] }, /model\.embed_tokens\.weight is bf16; it must be f32/],
  ])("refuses what llama.cpp would take for something else: %#", (change, text) => {
    expect(() => encodeLlamaGguf({ ...model, ...change })).toThrow(text);
  });
});
