// Shape of the model, layout of its flat parameter buffer, and the activation buffers. One instance holds one model.
// Parameters lie in the order of the Hugging Face state dict: embeddings; per layer q, k, v, o, gate, up, down and the two norms; norm; head.
import { reserveGemm } from "./gemm";
import { padded, reserve } from "./memory";

export let vocab: i32 = 0;
export let hidden: i32 = 0;
export let layers: i32 = 0;
export let heads: i32 = 0;
export let kvHeads: i32 = 0;
export let ffn: i32 = 0;
/** Longest sequence. */
export let context: i32 = 0;
export let tied: bool = false;
export let headSize: i32 = 0;
/** Width of k and of v. */
export let kvSize: i32 = 0;
/** Width of q, k and v together. */
export let qkvSize: i32 = 0;
/** Tokens that one forward pass can hold. */
export let capacity: i32 = 0;
/** Distance between rows of logits, and of attention scores. */
export let logitStride: i32 = 0;
export let scoreStride: i32 = 0;
/** Number of parameters. */
export let parameters: i32 = 0;

/** Inverse of the temperature at which the log-probs of the training pass are taken. */
export let sharpness: f32 = 1;

/** Sets {@link sharpness} for the passes from now on. */
export function setSharpness(value: f32): void {
  sharpness = value;
}

// What the host writes before a pass and reads after it; `capacity` values each.
export let tokens: usize = 0;
export let logprobs: usize = 0;
export let entropies: usize = 0;
export let coefficients: usize = 0;
export let entropyCoefficients: usize = 0;

// Activations that the backward pass needs; per layer unless said otherwise.
export let inputs: usize = 0;
export let inputScales: usize = 0;
export let normed: usize = 0;
export let qkv: usize = 0;
export let attention: usize = 0;
export let mixed: usize = 0;
export let middles: usize = 0;
export let middleScales: usize = 0;
export let middleNormed: usize = 0;
export let gateUp: usize = 0;
export let activated: usize = 0;
/** Not per layer: output of the last layer, its norm, and the probabilities of the next token. */
export let finals: usize = 0;
export let finalScales: usize = 0;
export let finalNormed: usize = 0;
export let probabilities: usize = 0;

/** Scratch: keys or values of one head as columns. */
export let headColumns: usize = 0;

// Gradients of activations, one layer at a time.
export let dResidual: usize = 0;
export let dHidden: usize = 0;
export let dQkv: usize = 0;
export let dGateUp: usize = 0;
export let dActivated: usize = 0;
export let dScores: usize = 0;

/** Rotary tables, [context, headSize / 2]. */
export let ropeCos: usize = 0;
export let ropeSin: usize = 0;

/** Sets the shape and reserves everything. Called once, before anything else. */
export function defineModel(
  vocabSize: i32,
  hiddenSize: i32,
  layerCount: i32,
  headCount: i32,
  kvHeadCount: i32,
  ffnSize: i32,
  contextSize: i32,
  tiedHead: bool,
  tokenCapacity: i32,
): void {
  vocab = vocabSize;
  hidden = hiddenSize;
  layers = layerCount;
  heads = headCount;
  kvHeads = kvHeadCount;
  ffn = ffnSize;
  context = contextSize;
  tied = tiedHead;
  capacity = tokenCapacity;
  headSize = hidden / heads;
  kvSize = kvHeads * headSize;
  qkvSize = hidden + 2 * kvSize;
  logitStride = padded(vocab);
  scoreStride = padded(context);
  parameters = layerStart(layers) + hidden + (tied ? 0 : vocab * hidden);
  reserveGemm(max(max(2 * ffn, qkvSize), max(vocab, hidden)));
  reserveActivations();
  fillRope();
}

function reserveActivations(): void {
  tokens = reserve(capacity);
  logprobs = reserve(capacity);
  entropies = reserve(capacity);
  coefficients = reserve(capacity);
  entropyCoefficients = reserve(capacity);
  const all = layers * capacity;
  inputs = reserve(all * hidden);
  inputScales = reserve(all);
  normed = reserve(all * hidden);
  qkv = reserve(all * qkvSize);
  attention = reserve(all * heads * scoreStride);
  mixed = reserve(all * hidden);
  middles = reserve(all * hidden);
  middleScales = reserve(all);
  middleNormed = reserve(all * hidden);
  gateUp = reserve(all * 2 * ffn);
  activated = reserve(all * ffn);
  finals = reserve(capacity * hidden);
  finalScales = reserve(capacity);
  finalNormed = reserve(capacity * hidden);
  probabilities = reserve(capacity * logitStride);
  dResidual = reserve(capacity * hidden);
  dHidden = reserve(capacity * hidden);
  dQkv = reserve(capacity * qkvSize);
  dGateUp = reserve(capacity * 2 * ffn);
  dActivated = reserve(capacity * ffn);
  dScores = reserve(scoreStride);
  headColumns = reserve(headSize * scoreStride);
}

/** Angles position · 10000^(−2i / headSize), in double precision before rounding. */
function fillRope(): void {
  const half = headSize >> 1;
  ropeCos = reserve(context * half);
  ropeSin = reserve(context * half);
  for (let i = 0; i < half; i++) {
    const frequency = 10000 ** ((-2.0 * i) / headSize);
    for (let position = 0; position < context; position++) {
      const at = (position * half + i) << 2;
      store<f32>(ropeCos + at, <f32>Math.cos(position * frequency));
      store<f32>(ropeSin + at, <f32>Math.sin(position * frequency));
    }
  }
}

/** Part of a per-layer activation buffer that belongs to `layer`; `width` values per token. */
export function layerPart(buffer: usize, layer: i32, width: i32): usize {
  return buffer + ((layer * capacity * width) << 2);
}

// Where each parameter lies, from the start of a flat buffer (of weights or of gradients).
function layerStart(layer: i32): i32 {
  return vocab * hidden + layer * ((qkvSize + hidden + 3 * ffn) * hidden + 2 * hidden);
}

export function qkvWeight(base: usize, layer: i32): usize {
  return base + (layerStart(layer) << 2);
}

export function outputWeight(base: usize, layer: i32): usize {
  return qkvWeight(base, layer) + ((qkvSize * hidden) << 2);
}

export function gateUpWeight(base: usize, layer: i32): usize {
  return outputWeight(base, layer) + ((hidden * hidden) << 2);
}

export function downWeight(base: usize, layer: i32): usize {
  return gateUpWeight(base, layer) + ((2 * ffn * hidden) << 2);
}

export function inputNorm(base: usize, layer: i32): usize {
  return downWeight(base, layer) + ((ffn * hidden) << 2);
}

export function middleNorm(base: usize, layer: i32): usize {
  return inputNorm(base, layer) + (hidden << 2);
}

export function finalNormWeight(base: usize): usize {
  return base + (layerStart(layers) << 2);
}

export function headWeight(base: usize): usize {
  return tied ? base : finalNormWeight(base) + (hidden << 2);
}
