// Sampling with a key-value cache. The host decides which rows are in the batch; a row's result does not depend on the others.
import { linear, linearStrided } from "./gemm";
import { attend, rmsNorm, rotate, swiglu } from "./layers";
import { logProbability, sharpen, softmax } from "./math";
import { reserve } from "./memory";
import * as m from "./model";

// One value per row of the batch, written by the host: token, its position, cache slot, inverse temperature (0 = greedy),
// uniform number in [0, 1) (64-bit); and the answers: next token and its log-probability.
export let rowTokens: usize = 0;
export let rowPositions: usize = 0;
export let rowSlots: usize = 0;
export let rowSharpness: usize = 0;
export let rowUniforms: usize = 0;
export let rowChoices: usize = 0;
export let rowLogprobs: usize = 0;

// What this instance computes of a layer: all of it, or the share of one of several ranks (`rank.ts`). Widths in values.
let heads: i32 = 0;
export let querySize: i32 = 0;
export let kvSize: i32 = 0;
export let qkvSize: i32 = 0;
export let gateSize: i32 = 0;

let slots: i32 = 0;
/** Keys as columns [layer, slot, kvSize, scoreStride]; values as rows [layer, slot, context, kvSize]. */
let keys: usize = 0;
let values: usize = 0;
/** Residual stream, whole on every rank. */
export let x: usize = 0;
export let normed: usize = 0;
export let scales: usize = 0;
export let qkv: usize = 0;
let scores: usize = 0;
/** Attention of this instance's heads, [rows, querySize]. */
export let mixed: usize = 0;
export let gateUp: usize = 0;
/** [rows, gateSize] */
export let activated: usize = 0;
export let logits: usize = 0;

/** Reserves a cache of `count` slots, which is also the largest batch. Called once, after the model is defined. */
export function defineSampler(count: i32): void {
  reserveSampler(count, 1);
}

/** Reserves what one of `ranks` ranks needs. */
export function reserveSampler(count: i32, ranks: i32): void {
  heads = m.heads / ranks;
  querySize = m.hidden / ranks;
  kvSize = m.kvSize / ranks;
  qkvSize = m.qkvSize / ranks;
  gateSize = m.ffn / ranks;
  slots = count;
  rowTokens = reserve(count);
  rowPositions = reserve(count);
  rowSlots = reserve(count);
  rowSharpness = reserve(count);
  rowUniforms = reserve(2 * count);
  rowChoices = reserve(count);
  rowLogprobs = reserve(count);
  keys = reserve(m.layers * count * kvSize * m.scoreStride);
  values = reserve(m.layers * count * kvSize * m.context);
  x = reserve(count * m.hidden);
  normed = reserve(count * m.hidden);
  scales = reserve(count);
  qkv = reserve(count * qkvSize);
  scores = reserve(m.scoreStride);
  mixed = reserve(count * querySize);
  gateUp = reserve(count * 2 * gateSize);
  activated = reserve(count * gateSize);
  logits = reserve(count * m.logitStride);
}

function slotKeys(layer: i32, slot: i32): usize {
  return keys + (((layer * slots + slot) * kvSize * m.scoreStride) << 2);
}

function slotValues(layer: i32, slot: i32): usize {
  return values + (((layer * slots + slot) * kvSize * m.context) << 2);
}

/** Copies the cache of one slot to another: a group's prompt is computed once. */
export function copySlot(from: i32, to: i32): void {
  for (let layer = 0; layer < m.layers; layer++) {
    memory.copy(slotKeys(layer, to), slotKeys(layer, from), ((kvSize * m.scoreStride) as usize) << 2);
    memory.copy(slotValues(layer, to), slotValues(layer, from), ((kvSize * m.context) as usize) << 2);
  }
}

/** Feeds one token per row and chooses the next one; fills choices and log-probs of all rows. */
export function decode(weights: usize, rows: i32): void {
  const bytes = m.hidden << 2;
  for (let i = 0; i < rows; i++) {
    memory.copy(x + i * bytes, weights + load<i32>(rowTokens + (i << 2)) * bytes, bytes);
  }
  for (let layer = 0; layer < m.layers; layer++) {
    rmsNorm(x, m.inputNorm(weights, layer), normed, scales, rows);
    linear(normed, m.qkvWeight(weights, layer), qkv, rows, m.qkvSize, m.hidden, false);
    for (let i = 0; i < rows; i++) attendRow(layer, i);
    linear(mixed, m.outputWeight(weights, layer), x, rows, m.hidden, m.hidden, true);
    rmsNorm(x, m.middleNorm(weights, layer), normed, scales, rows);
    linear(normed, m.gateUpWeight(weights, layer), gateUp, rows, 2 * m.ffn, m.hidden, false);
    swiglu(gateUp, activated, rows, m.ffn);
    linear(activated, m.downWeight(weights, layer), x, rows, m.hidden, m.ffn, true);
  }
  rmsNorm(x, m.finalNormWeight(weights), normed, scales, rows);
  linearStrided(normed, m.headWeight(weights), logits, rows, m.vocab, m.hidden, m.logitStride);
  for (let i = 0; i < rows; i++) choose(i);
}

/** Stores the row's key and value in its slot, then attends over all positions so far. */
export function attendRow(layer: i32, i: i32): void {
  const row = qkv + ((i * qkvSize) << 2);
  const position = load<i32>(rowPositions + (i << 2));
  const slot = load<i32>(rowSlots + (i << 2));
  rotate(row, heads + kvSize / m.headSize, position, 1);
  const key = row + (querySize << 2);
  const keyColumns = slotKeys(layer, slot);
  const valueRows = slotValues(layer, slot);
  for (let j = 0; j < kvSize; j++) {
    store<f32>(keyColumns + ((j * m.scoreStride + position) << 2), load<f32>(key + (j << 2)));
  }
  memory.copy(valueRows + ((position * kvSize) << 2), key + (kvSize << 2), (kvSize as usize) << 2);
  const group = m.heads / m.kvHeads;
  for (let head = 0; head < heads; head++) {
    const kv = (head / group) * m.headSize;
    const columns = keyColumns + ((kv * m.scoreStride) << 2);
    const out = mixed + ((i * querySize + head * m.headSize) << 2);
    const query = row + ((head * m.headSize) << 2);
    attend(query, columns, m.scoreStride, valueRows + (kv << 2), kvSize, position + 1, scores, out);
  }
}

/** Draws from the row's distribution by inversion, or takes the likeliest token. */
export function choose(i: i32): void {
  const row = logits + ((i * m.logitStride) << 2);
  const sharpness = load<f32>(rowSharpness + (i << 2));
  if (sharpness !== 0) sharpen(row, m.vocab, sharpness);
  softmax(row, m.vocab);
  const choice = sharpness === 0 ? likeliest(row) : drawn(row, load<f64>(rowUniforms + (i << 3)));
  store<i32>(rowChoices + (i << 2), choice);
  store<f32>(rowLogprobs + (i << 2), logProbability(load<f32>(row + (choice << 2))));
}

function drawn(row: usize, uniform: f64): i32 {
  let sum: f64 = 0;
  for (let j = 0; j < m.vocab; j++) {
    sum += <f64>load<f32>(row + (j << 2));
    if (uniform < sum) return j;
  }
  return likeliest(row); // the probabilities summed to just below `uniform`
}

function likeliest(row: usize): i32 {
  let best = 0;
  for (let j = 1; j < m.vocab; j++) if (load<f32>(row + (j << 2)) > load<f32>(row + (best << 2))) best = j;
  return best;
}
