// Forward pass of a batch of equally long rows: log-probability of each next token and entropy of its distribution.
import { linear, linearStrided } from "./gemm";
import { attend, rmsNorm, rotate, swiglu, transposeHead } from "./layers";
import { lanes, log4, logProbability, madd, sharpen, softmax } from "./math";
import * as m from "./model";

/** Runs tokens[batch, length]; fills log-probs and entropies, row by row, the last position of a row being 0. */
export function forward(weights: usize, batch: i32, length: i32): void {
  const rows = batch * length;
  const bytes = m.hidden << 2;
  for (let i = 0; i < rows; i++) {
    const token = load<i32>(m.tokens + (i << 2));
    memory.copy(m.inputs + i * bytes, weights + token * bytes, bytes);
  }
  for (let layer = 0; layer < m.layers; layer++) {
    attentionHalf(weights, layer, batch, length);
    const next = layer + 1 < m.layers ? m.layerPart(m.inputs, layer + 1, m.hidden) : m.finals;
    gatedHalf(weights, layer, rows, next);
  }
  rmsNorm(m.finals, m.finalNormWeight(weights), m.finalNormed, m.finalScales, rows);
  linearStrided(m.finalNormed, m.headWeight(weights), m.probabilities, rows, m.vocab, m.hidden, m.logitStride);
  score(rows, length);
}

/** middle = input + output(attention(norm(input))) */
function attentionHalf(weights: usize, layer: i32, batch: i32, length: i32): void {
  const rows = batch * length;
  const input = m.layerPart(m.inputs, layer, m.hidden);
  const normed = m.layerPart(m.normed, layer, m.hidden);
  const qkv = m.layerPart(m.qkv, layer, m.qkvSize);
  const mixed = m.layerPart(m.mixed, layer, m.hidden);
  const middle = m.layerPart(m.middles, layer, m.hidden);
  rmsNorm(input, m.inputNorm(weights, layer), normed, m.layerPart(m.inputScales, layer, 1), rows);
  linear(normed, m.qkvWeight(weights, layer), qkv, rows, m.qkvSize, m.hidden, false);
  for (let i = 0; i < rows; i++) rotate(qkv + ((i * m.qkvSize) << 2), m.heads + m.kvHeads, i % length, 1);
  attendBatch(qkv, m.layerPart(m.attention, layer, m.heads * m.scoreStride), mixed, batch, length);
  memory.copy(middle, input, ((rows * m.hidden) as usize) << 2);
  linear(mixed, m.outputWeight(weights, layer), middle, rows, m.hidden, m.hidden, true);
}

function attendBatch(qkv: usize, scores: usize, mixed: usize, batch: i32, length: i32): void {
  const group = m.heads / m.kvHeads;
  for (let b = 0; b < batch; b++) {
    const base = qkv + ((b * length * m.qkvSize) << 2);
    for (let head = 0; head < m.heads; head++) {
      const key = base + ((m.hidden + (head / group) * m.headSize) << 2);
      const value = key + (m.kvSize << 2);
      if (head % group === 0) transposeHead(key, m.qkvSize, length, m.headColumns, m.scoreStride);
      for (let t = 0; t < length; t++) {
        const query = base + ((t * m.qkvSize + head * m.headSize) << 2);
        const row = scores + ((((b * m.heads + head) * length + t) * m.scoreStride) << 2);
        const out = mixed + (((b * length + t) * m.hidden + head * m.headSize) << 2);
        attend(query, m.headColumns, m.scoreStride, value, m.qkvSize, t + 1, row, out);
      }
    }
  }
}

/** next = middle + down(swiglu(gateUp(norm(middle)))) */
function gatedHalf(weights: usize, layer: i32, rows: i32, next: usize): void {
  const middle = m.layerPart(m.middles, layer, m.hidden);
  const normed = m.layerPart(m.middleNormed, layer, m.hidden);
  const gateUp = m.layerPart(m.gateUp, layer, 2 * m.ffn);
  const activated = m.layerPart(m.activated, layer, m.ffn);
  rmsNorm(middle, m.middleNorm(weights, layer), normed, m.layerPart(m.middleScales, layer, 1), rows);
  linear(normed, m.gateUpWeight(weights, layer), gateUp, rows, 2 * m.ffn, m.hidden, false);
  swiglu(gateUp, activated, rows, m.ffn);
  memory.copy(next, middle, ((rows * m.hidden) as usize) << 2);
  linear(activated, m.downWeight(weights, layer), next, rows, m.hidden, m.ffn, true);
}

function score(rows: i32, length: i32): void {
  for (let i = 0; i < rows; i++) {
    const row = m.probabilities + ((i * m.logitStride) << 2);
    const at = i << 2;
    sharpen(row, m.vocab, m.sharpness);
    softmax(row, m.vocab);
    store<f32>(m.entropies + at, entropy(row));
    if (i % length === length - 1) store<f32>(m.logprobs + at, 0);
    else store<f32>(m.logprobs + at, logProbability(load<f32>(row + (load<i32>(m.tokens + at + 4) << 2))));
  }
}

/** −Σ p · log p; the padding is 0 and adds nothing. */
function entropy(row: usize): f32 {
  let sum = f32x4.splat(0);
  const floor = f32x4.splat(1e-30);
  for (let end = row + ((m.logitStride as usize) << 2); row < end; row += 16) {
    const p = v128.load(row);
    sum = madd(sum, p, log4(f32x4.max(p, floor)));
  }
  return -lanes(sum);
}
