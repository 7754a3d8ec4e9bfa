/**
 * A Llama in the layout of Hugging Face as llama.cpp names and stores it: architecture `llama`, rows of queries and keys in the order of interleaved
 * rotary embedding, the vocabulary as byte-level BPE without merges, so that one character is one token. Pure.
 */
import { errors } from "../errors.ts";
import type { PlacedTensor } from "../tensor-spec.ts";
import { encodeGguf, type GgufTensor, type GgufValue } from "./gguf.ts";

/** What a GGUF file is made of. */
export interface LlamaGguf {
  /** `config.json` of the model. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: readonly PlacedTensor[];
  /** The weights section that `tensors` place into. */
  readonly weights: Uint8Array;
  readonly name: string;
  /** Text of each token id, in order; ids beyond it are unused. */
  readonly vocabulary: readonly string[];
  /** Ends a response. */
  readonly endToken: number;
}

/** Writes a model as GGUF. @returns The parts of the file, in order. @throws MUSTER_ERR_GGUF_UNSUPPORTED naming what llama.cpp could not load */
export function encodeLlamaGguf(model: LlamaGguf): readonly Uint8Array[] {
  const shape = shapeOf(model.config);
  if (model.vocabulary.length > shape.vocab)
    throw unsupported("vocabulary", model.vocabulary.length, `at most vocab_size = ${shape.vocab} tokens`);
  return encodeGguf({ ...headerOf(shape, model.name), ...tokensOf(model, shape.vocab) }, renamed(model, shape));
}

interface LlamaShape {
  readonly vocab: number;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly ffn: number;
  readonly context: number;
  readonly epsilon: number;
  readonly ropeBase: number;
}

function shapeOf(config: LlamaGguf["config"]): LlamaShape {
  if (config.model_type !== "llama") throw unsupported("model_type", config.model_type, "llama");
  if (config.rope_scaling) throw unsupported("rope_scaling", JSON.stringify(config.rope_scaling), "absent");
  const count = (field: string): number => {
    const value = config[field];
    if (typeof value !== "number" || !(value > 0)) throw unsupported(field, value, "a positive number");
    return value;
  };
  const heads = count("num_attention_heads");
  return {
    ...{ vocab: count("vocab_size"), hidden: count("hidden_size"), layers: count("num_hidden_layers"), heads },
    kvHeads: config.num_key_value_heads === undefined ? heads : count("num_key_value_heads"),
    ...{ ffn: count("intermediate_size"), context: count("max_position_embeddings") },
    ...{ epsilon: count("rms_norm_eps"), ropeBase: count("rope_theta") },
  };
}

function headerOf(shape: LlamaShape, name: string): Readonly<Record<string, GgufValue>> {
  const { vocab, hidden, layers, heads, kvHeads, ffn, context, epsilon, ropeBase } = shape;
  const whole = (value: number): GgufValue => ({ type: "u32", value });
  return {
    "general.architecture": { type: "text", value: "llama" },
    "general.name": { type: "text", value: name },
    "general.file_type": whole(0),
    "llama.vocab_size": whole(vocab),
    "llama.context_length": whole(context),
    "llama.embedding_length": whole(hidden),
    "llama.block_count": whole(layers),
    "llama.feed_forward_length": whole(ffn),
    "llama.attention.head_count": whole(heads),
    "llama.attention.head_count_kv": whole(kvHeads),
    "llama.attention.layer_norm_rms_epsilon": { type: "f32", value: epsilon },
    "llama.rope.dimension_count": whole(hidden / heads),
    "llama.rope.freq_base": { type: "f32", value: ropeBase },
  };
}

/** Kinds of a token, as llama.cpp numbers them. */
const tokenTypes = { normal: 1, control: 3, unused: 5 } as const;

function tokensOf({ vocabulary, endToken }: LlamaGguf, vocab: number): Readonly<Record<string, GgufValue>> {
  const tokens = Array.from({ length: vocab }, (_, id) => {
    if (id === endToken) return { text: "<|end|>", type: tokenTypes.control };
    const text = vocabulary[id];
    return text
      ? { text: byteLevel(text), type: tokenTypes.normal }
      : { text: `<|unused ${id}|>`, type: tokenTypes.unused };
  });
  return {
    "tokenizer.ggml.model": { type: "text", value: "gpt2" },
    "tokenizer.ggml.pre": { type: "text", value: "gpt-2" },
    "tokenizer.ggml.tokens": { type: "texts", value: tokens.map(({ text }) => text) },
    "tokenizer.ggml.token_type": { type: "i32s", value: tokens.map(({ type }) => type) },
    "tokenizer.ggml.merges": { type: "texts", value: [] },
    "tokenizer.ggml.eos_token_id": { type: "u32", value: endToken },
    "tokenizer.ggml.bos_token_id": { type: "u32", value: endToken },
    "tokenizer.ggml.add_bos_token": { type: "bool", value: false },
    "tokenizer.ggml.add_eos_token": { type: "bool", value: false },
  };
}

/** Bytes that byte-level BPE writes as themselves; the others are moved to U+0100 and on, in order. */
const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

function byteLevel(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) => {
      if (isPrintable(byte)) return String.fromCodePoint(byte);
      const before = Array.from({ length: byte }, (_, each) => each).filter((each) => !isPrintable(each)).length;
      return String.fromCodePoint(0x100 + before);
    })
    .join("");
}

const outer: Readonly<Record<string, string>> = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "lm_head.weight": "output.weight",
};
const inner: Readonly<Record<string, string>> = {
  input_layernorm: "attn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  post_attention_layernorm: "ffn_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

function renamed({ tensors, weights }: LlamaGguf, shape: LlamaShape): readonly GgufTensor[] {
  return tensors.map(({ name, dtype, shape: sizes, offsetBytes, sizeBytes }) => {
    if (dtype !== "f32") throw unsupported(name, dtype, "f32");
    const [, layer, part = ""] = /^model\.layers\.(\d+)\.(.+)\.weight$/.exec(name) ?? [];
    const known = layer === undefined ? outer[name] : inner[part];
    if (known === undefined) throw unsupported("tensor", name, "one of a Llama without biases");
    const bytes = weights.subarray(offsetBytes, offsetBytes + sizeBytes);
    const heads = part === "self_attn.q_proj" ? shape.heads : part === "self_attn.k_proj" ? shape.kvHeads : null;
    return {
      name: layer === undefined ? known : `blk.${layer}.${known}.weight`,
      shape: sizes,
      bytes: heads === null ? bytes : interleaved(bytes, heads, sizes[0] ?? 0),
    };
  });
}

/** Rows of each head from halves (0 … n/2, n/2 … n) to pairs (0, n/2, 1, n/2 + 1 …): how llama.cpp turns them. */
function interleaved(bytes: Uint8Array, heads: number, rows: number): Uint8Array {
  const [row, size] = [bytes.length / rows, rows / heads];
  const out = new Uint8Array(bytes.length);
  for (let to = 0; to < rows; to++) {
    const [head, at] = [Math.floor(to / size), to % size];
    const from = head * size + (at % 2) * (size / 2) + Math.floor(at / 2);
    out.set(bytes.subarray(from * row, (from + 1) * row), to * row);
  }
  return out;
}

function unsupported(field: string, value: unknown, rule: string): Error {
  return errors.GgufUnsupported({ field, value: value === undefined ? "absent" : String(value), rule });
}
