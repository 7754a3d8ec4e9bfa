// Backward pass of the last forward: Loss = Σ coefficient · log-prob + Σ entropyCoefficient · entropy. The loss itself lives with the host.
// Gradients are added to the flat buffer, in a fixed order.
import { linearInput, linearWeight } from "./gemm";
import { combine, project, rmsNormBackward, rotate, spread, swigluBackward, transposeHead } from "./layers";
import { addScaled, clear, lanes, log4, madd } from "./math";
import * as m from "./model";

/** Adds the gradient of the last forward pass (same weights, batch and length) to `gradient`. */
export function backward(weights: usize, gradient: usize, batch: i32, length: i32): void {
  const rows = batch * length;
  for (let i = 0; i < rows; i++) logitGradient(i, i % length === length - 1);
  const head = m.headWeight(weights);
  linearInput(m.probabilities, head, m.dHidden, rows, m.vocab, m.hidden, m.logitStride);
  linearWeight(m.probabilities, m.finalNormed, m.headWeight(gradient), rows, m.vocab, m.hidden, m.logitStride);
  clear(m.dResidual, rows * m.hidden);
  rmsNormBackward(
    m.finals,
    m.finalNormWeight(weights),
    m.finalScales,
    m.dHidden,
    m.dResidual,
    m.finalNormWeight(gradient),
    rows,
  );
  for (let layer = m.layers - 1; layer >= 0; layer--) {
    gatedHalf(weights, gradient, layer, rows);
    attentionHalf(weights, gradient, layer, batch, length);
  }
  for (let i = 0; i < rows; i++) {
    const token = load<i32>(m.tokens + (i << 2));
    addScaled(gradient + ((token * m.hidden) << 2), 1, m.dResidual + ((i * m.hidden) << 2), m.hidden);
  }
}

/** Turns the probabilities of row `i` into the gradient of its logits. */
function logitGradient(i: i32, last: bool): void {
  let row = m.probabilities + ((i * m.logitStride) << 2);
  const coefficient: f32 = last ? 0 : load<f32>(m.coefficients + (i << 2)) * m.sharpness;
  const entropyCoefficient = load<f32>(m.entropyCoefficients + (i << 2)) * m.sharpness;
  if (coefficient === 0 && entropyCoefficient === 0) {
    clear(row, m.logitStride);
    return;
  }
  const chosen: usize = last ? 0 : row + (load<i32>(m.tokens + (i << 2) + 4) << 2);
  const k = f32x4.splat(-coefficient);
  const e = f32x4.splat(-entropyCoefficient);
  const h = f32x4.splat(load<f32>(m.entropies + (i << 2)));
  const floor = f32x4.splat(1e-30);
  for (const end = row + ((m.logitStride as usize) << 2); row < end; row += 16) {
    const p = v128.load(row);
    let factor = k;
    if (entropyCoefficient !== 0) factor = madd(k, e, f32x4.add(log4(f32x4.max(p, floor)), h));
    v128.store(row, f32x4.mul(p, factor));
  }
  if (chosen) store<f32>(chosen, load<f32>(chosen) + coefficient);
}

function gatedHalf(weights: usize, gradient: usize, layer: i32, rows: i32): void {
  const gateUp = m.layerPart(m.gateUp, layer, 2 * m.ffn);
  linearInput(m.dResidual, m.downWeight(weights, layer), m.dActivated, rows, m.hidden, m.ffn, m.hidden);
  const activated = m.layerPart(m.activated, layer, m.ffn);
  linearWeight(m.dResidual, activated, m.downWeight(gradient, layer), rows, m.hidden, m.ffn, m.hidden);
  swigluBackward(gateUp, m.dActivated, m.dGateUp, rows, m.ffn);
  linearInput(m.dGateUp, m.gateUpWeight(weights, layer), m.dHidden, rows, 2 * m.ffn, m.hidden, 2 * m.ffn);
  const normed = m.layerPart(m.middleNormed, layer, m.hidden);
  linearWeight(m.dGateUp, normed, m.gateUpWeight(gradient, layer), rows, 2 * m.ffn, m.hidden, 2 * m.ffn);
  const middle = m.layerPart(m.middles, layer, m.hidden);
  const scales = m.layerPart(m.middleScales, layer, 1);
  const norm = m.middleNorm(weights, layer);
  rmsNormBackward(middle, norm, scales, m.dHidden, m.dResidual, m.middleNorm(gradient, layer), rows);
}

function attentionHalf(weights: usize, gradient: usize, layer: i32, batch: i32, length: i32): void {
  const rows = batch * length;
  linearInput(m.dResidual, m.outputWeight(weights, layer), m.dHidden, rows, m.hidden, m.hidden, m.hidden);
  const mixed = m.layerPart(m.mixed, layer, m.hidden);
  linearWeight(m.dResidual, mixed, m.outputWeight(gradient, layer), rows, m.hidden, m.hidden, m.hidden);
  clear(m.dQkv, rows * m.qkvSize);
  attendBackward(layer, batch, length);
  for (let i = 0; i < rows; i++) rotate(m.dQkv + ((i * m.qkvSize) << 2), m.heads + m.kvHeads, i % length, -1);
  linearInput(m.dQkv, m.qkvWeight(weights, layer), m.dHidden, rows, m.qkvSize, m.hidden, m.qkvSize);
  const normed = m.layerPart(m.normed, layer, m.hidden);
  linearWeight(m.dQkv, normed, m.qkvWeight(gradient, layer), rows, m.qkvSize, m.hidden, m.qkvSize);
  const input = m.layerPart(m.inputs, layer, m.hidden);
  const scales = m.layerPart(m.inputScales, layer, 1);
  const norm = m.inputNorm(weights, layer);
  rmsNormBackward(input, norm, scales, m.dHidden, m.dResidual, m.inputNorm(gradient, layer), rows);
}

function attendBackward(layer: i32, batch: i32, length: i32): void {
  const qkv = m.layerPart(m.qkv, layer, m.qkvSize);
  const scores = m.layerPart(m.attention, layer, m.heads * m.scoreStride);
  const group = m.heads / m.kvHeads;
  for (let b = 0; b < batch; b++) {
    const row = (b * length * m.qkvSize) << 2;
    for (let head = 0; head < m.heads; head++) {
      const key = (m.hidden + (head / group) * m.headSize) << 2;
      const value = key + (m.kvSize << 2);
      if (head % group === 0) transposeHead(qkv + row + value, m.qkvSize, length, m.headColumns, m.scoreStride);
      for (let t = 0; t < length; t++) {
        const query = row + ((t * m.qkvSize + head * m.headSize) << 2);
        const p = scores + ((((b * m.heads + head) * length + t) * m.scoreStride) << 2);
        const dOut = m.dHidden + (((b * length + t) * m.hidden + head * m.headSize) << 2);
        project(dOut, m.headColumns, m.scoreStride, t + 1, 1, m.dScores);
        spread(p, dOut, m.dQkv + row + value, m.qkvSize, t + 1);
        softmaxBackward(p, t + 1);
        combine(m.dScores, qkv + row + key, m.qkvSize, t + 1, m.dQkv + query);
        spread(m.dScores, qkv + query, m.dQkv + row + key, m.qkvSize, t + 1);
      }
    }
  }
}

/** dScores = p · (dScores − Σ p · dScores) / √headSize; padding has p = 0. */
function softmaxBackward(p: usize, count: i32): void {
  const bytes = (count as usize) << 2;
  let sum = f32x4.splat(0);
  for (let s: usize = 0; s < bytes; s += 16) sum = madd(sum, v128.load(p + s), v128.load(m.dScores + s));
  const mean = f32x4.splat(lanes(sum));
  const scale = f32x4.splat(<f32>1 / sqrt<f32>(<f32>m.headSize));
  for (let s: usize = 0; s < bytes; s += 16) {
    const centred = f32x4.sub(v128.load(m.dScores + s), mean);
    v128.store(m.dScores + s, f32x4.mul(f32x4.mul(v128.load(p + s), centred), scale));
  }
}
