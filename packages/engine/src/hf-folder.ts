/** Models as Hugging Face folders: `config.json` (LlamaForCausalLM) and safetensors in one file or several. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { byUmask } from "@muster/base";
import { encodeSafetensors, type ModelFolder, openModelFolder, type PlacedTensor, readFloats } from "@muster/tensors";
import { checkModel, type ModelConfig, tensorsOf } from "./embedded/model-config.ts";
import { errors } from "./errors.ts";
import { makeFolderSync } from "./make-folder.ts";

/** In what weights may be stored; the engine computes in f32, and each number of these is one. */
const storedDTypes = ["f32", "bf16", "f16"];

/** Writes a model folder that any Llama implementation loads. `weights` is a weights section. */
export async function saveHfFolder(path: string, model: ModelConfig, weights: Uint8Array): Promise<void> {
  makeFolderSync(path, byUmask);
  const fields = Object.entries(hfConfigOf(model)).map(([name, value]) => `  "${name}": ${JSON.stringify(value)}`);
  await writeFile(join(path, "config.json"), `{\n${fields.join(",\n")}\n}\n`);
  await writeFile(join(path, "model.safetensors"), encodeSafetensors(tensorsOf(model), weights));
}

/**
 * Reads a model folder into a weights section.
 *
 * @throws MUSTER_ERR_HF_FOLDER_UNSUPPORTED naming the field that this engine cannot run, MUSTER_ERR_MODEL_FOLDER_INVALID
 */
export async function loadHfFolder(
  path: string,
): Promise<{ readonly model: ModelConfig; readonly weights: Uint8Array }> {
  const model = modelOf(path, await readConfig(path));
  const folder = await openModelFolder(path);
  try {
    return { model, weights: await readWeights(path, folder, tensorsOf(model)) };
  } finally {
    await folder.close();
  }
}

/** Every tensor that a model has must be there, with its shape, in a type that each number of is one of f32. */
function checkTensors(path: string, folder: ModelFolder, specs: readonly PlacedTensor[]): void {
  for (const { name, shape } of specs) {
    const tensor = folder.tensors.get(name);
    const found = tensor ? `${tensor.dtype}[${tensor.shape.join(", ")}]` : "absent";
    const sizes = `[${shape.join(", ")}]`;
    if (!storedDTypes.some((dtype) => found === `${dtype}${sizes}`))
      throw unsupported(path, name, found, `${sizes} of ${storedDTypes.join(", ")}`);
  }
}

async function readWeights(path: string, folder: ModelFolder, specs: readonly PlacedTensor[]): Promise<Uint8Array> {
  checkTensors(path, folder, specs);
  const last = specs.at(-1)!;
  const weights = new Uint8Array(last.offsetBytes + last.sizeBytes);
  for (const { name, offsetBytes, sizeBytes } of specs)
    await readFloats(folder, name, { dtype: "f32", bytes: weights.subarray(offsetBytes, offsetBytes + sizeBytes) });
  return weights;
}

/** Reads the weights section of a folder for an engine of this shape; the context length may differ. */
export async function loadWeightsFor(model: ModelConfig, path: string): Promise<Uint8Array> {
  const folder = await loadHfFolder(path);
  checkShape(path, folder.model, model);
  return folder.weights;
}

/**
 * Checks that a folder holds weights for an engine of this shape, by its configuration and the headers of its files.
 *
 * @throws as {@link loadWeightsFor}, which also reads the numbers
 */
export async function checkWeightsFor(model: ModelConfig, path: string): Promise<void> {
  const folder = await openModelFolder(path);
  try {
    checkShape(path, modelOf(path, await readConfig(path)), model);
    checkTensors(path, folder, tensorsOf(model));
  } finally {
    await folder.close();
  }
}

function checkShape(path: string, found: ModelConfig, model: ModelConfig): void {
  for (const field of ["vocab", "hidden", "layers", "heads", "kvHeads", "ffn", "tied"] as const) {
    if (found[field] !== model[field]) throw unsupported(path, field, found[field], String(model[field]));
  }
}

/** `config.json` of a model: what any Llama implementation reads. Pure. */
export function hfConfigOf(model: ModelConfig): Record<string, unknown> {
  return {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: model.vocab,
    hidden_size: model.hidden,
    intermediate_size: model.ffn,
    num_hidden_layers: model.layers,
    num_attention_heads: model.heads,
    num_key_value_heads: model.kvHeads,
    head_dim: model.hidden / model.heads,
    max_position_embeddings: model.maxContext,
    ...fixed,
    tie_word_embeddings: model.tied,
    torch_dtype: "float32",
    bos_token_id: null,
    eos_token_id: 0,
  };
}

/** What the embedded core has built in. */
const fixed = {
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  hidden_act: "silu",
  attention_bias: false,
  mlp_bias: false,
} as const;

async function readConfig(path: string): Promise<Record<string, unknown>> {
  const text = await readFile(join(path, "config.json"), "utf8").catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT")
      throw unsupported(path, "config.json", undefined, "a JSON object");
    throw cause;
  });
  try {
    const config: unknown = JSON.parse(text);
    if (typeof config === "object" && config !== null) return config as Record<string, unknown>;
  } catch (cause) {
    throw errors.HfFolderUnsupported({ path, field: "config.json", value: "malformed", rule: "a JSON object" }, cause);
  }
  throw unsupported(path, "config.json", text.slice(0, 40), "a JSON object");
}

function modelOf(path: string, config: Record<string, unknown>): ModelConfig {
  if (config.model_type !== "llama") throw unsupported(path, "model_type", config.model_type, "llama");
  for (const [field, value] of Object.entries(fixed)) {
    if (config[field] !== undefined && config[field] !== value)
      throw unsupported(path, field, config[field], String(value));
  }
  const count = (field: string): number => {
    const value = config[field];
    if (typeof value !== "number") throw unsupported(path, field, value, "a number");
    return value;
  };
  const heads = count("num_attention_heads");
  const model: ModelConfig = {
    vocab: count("vocab_size"),
    hidden: count("hidden_size"),
    layers: count("num_hidden_layers"),
    heads,
    kvHeads: config.num_key_value_heads === undefined ? heads : count("num_key_value_heads"),
    ffn: count("intermediate_size"),
    maxContext: count("max_position_embeddings"),
    tied: config.tie_word_embeddings === true,
  };
  checkModel(model);
  const headSize = config.head_dim ?? model.hidden / heads;
  if (headSize !== model.hidden / heads) throw unsupported(path, "head_dim", headSize, String(model.hidden / heads));
  return model;
}

function unsupported(path: string, field: string, value: unknown, rule: string): Error {
  return errors.HfFolderUnsupported({ path, field, value: value === undefined ? "absent" : String(value), rule });
}
