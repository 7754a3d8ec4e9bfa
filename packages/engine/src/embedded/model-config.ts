/** Shape of a Llama model and where its tensors lie in the flat weights section. */
import { type PlacedTensor, placeDensely, type TensorSpec } from "@muster/tensors";
import { errors } from "../errors.ts";

/** Shape of a Llama-architecture model: RMSNorm, rotary embedding, gated activation, grouped queries. */
export interface ModelConfig {
  /** Number of token ids. */
  readonly vocab: number;
  /** Width of the residual stream; `hidden / heads` is the head size, a multiple of 4. */
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  /** Key and value heads; divides `heads`. */
  readonly kvHeads: number;
  /** Width of the gated layer, a multiple of 4. */
  readonly ffn: number;
  /** Longest sequence in tokens. */
  readonly maxContext: number;
  /** True when the head shares the embedding matrix. */
  readonly tied: boolean;
}

/** Checks a shape. @throws MUSTER_ERR_ENGINE_MODEL_INVALID naming the field. */
export function checkModel(model: ModelConfig): void {
  const require = (holds: boolean, field: keyof ModelConfig, rule: string): void => {
    if (!holds) throw errors.EngineModelInvalid({ field, value: model[field], rule });
  };
  for (const field of ["vocab", "hidden", "layers", "heads", "kvHeads", "ffn", "maxContext"] as const) {
    require(Number.isInteger(model[field]) && model[field] >= 1, field, "a whole number of at least 1");
  }
  require(model.vocab <= 1 << 20, "vocab", "at most 1048576");
  require(model.maxContext >= 2 && model.maxContext <= 1 << 16, "maxContext", "between 2 and 65536");
  require(model.hidden % (4 * model.heads) === 0, "hidden", `a multiple of 4 · heads = ${4 * model.heads}`);
  require(model.heads % model.kvHeads === 0, "kvHeads", `a divisor of heads = ${model.heads}`);
  require(model.ffn % 4 === 0, "ffn", "a multiple of 4");
}

/** The tensors of a model in the order of the Hugging Face state dict, which is the order of the flat buffer. */
export function tensorsOf(model: ModelConfig): readonly PlacedTensor[] {
  const tensors: TensorSpec[] = [];
  const put = (name: string, ...shape: number[]): void => {
    tensors.push({ name, dtype: "f32", shape });
  };
  const { hidden, ffn } = model;
  const kvSize = (hidden / model.heads) * model.kvHeads;
  put("model.embed_tokens.weight", model.vocab, hidden);
  for (let layer = 0; layer < model.layers; layer++) {
    const at = `model.layers.${layer}`;
    put(`${at}.self_attn.q_proj.weight`, hidden, hidden);
    put(`${at}.self_attn.k_proj.weight`, kvSize, hidden);
    put(`${at}.self_attn.v_proj.weight`, kvSize, hidden);
    put(`${at}.self_attn.o_proj.weight`, hidden, hidden);
    put(`${at}.mlp.gate_proj.weight`, ffn, hidden);
    put(`${at}.mlp.up_proj.weight`, ffn, hidden);
    put(`${at}.mlp.down_proj.weight`, hidden, ffn);
    put(`${at}.input_layernorm.weight`, hidden);
    put(`${at}.post_attention_layernorm.weight`, hidden);
  }
  put("model.norm.weight", hidden);
  if (!model.tied) put("lm_head.weight", model.vocab, hidden);
  return placeDensely(tensors);
}

/** Number of parameters. */
export function parametersOf(model: ModelConfig): number {
  return tensorsOf(model).reduce((sum, tensor) => sum + tensor.sizeBytes / 4, 0);
}

/** Name of a shape, e.g. `llama-l2-d64-v43`. */
export function modelIdOf(model: ModelConfig): string {
  return `llama-l${model.layers}-d${model.hidden}-v${model.vocab}`;
}
