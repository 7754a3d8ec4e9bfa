/**
 * The arithmetic of the simulated engines: small, in float32, and a pure function of its bytes, so that equal inputs give equal bits
 * whoever computes. It learns nothing; it only has to be as touchy as training: every sample, in its order, changes every weight.
 */
import { mixSeed, randomOf } from "@muster/base";
import type { OptimizerOptions, TrainSample } from "@muster/engine";

/** 32-bit hash of bytes. */
export function hashOf(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ (bytes[i] as number), 0x01000193);
  return hash >>> 0;
}

/** 32-bit hash of token ids. */
export function tokensHash(tokens: Int32Array): number {
  return mixSeed(...tokens);
}

/**
 * Adds the gradient of one sample at `weights` to `sum`. `places`: of a part of the weights, the place of each number in the whole, from 1; where it is 0
 * there is no number.
 */
export function addGradient(
  sum: Float32Array,
  weights: Float32Array,
  sample: TrainSample,
  places: Int32Array | null = null,
): void {
  const hash = tokensHash(sample.tokens);
  const scale = Math.fround(sample.advantage / 64);
  for (let i = 0; i < sum.length; i++) {
    const place = places ? (places[i] as number) : i + 1;
    if (place === 0) continue;
    const direction = Math.fround((((Math.imul(hash, place) >>> 8) & 0xffff) - 0x8000) / 0x8000);
    sum[i] = (sum[i] as number) + Math.fround(scale * (direction + (weights[i] as number)));
  }
}

/** Euclidean norm. */
export function normOf(gradient: Float32Array): number {
  let sum = 0;
  for (const value of gradient) sum += value * value;
  return Math.sqrt(sum);
}

/** One update with momentum, in place. `state` is momentum, then as many zeros, then a counter. */
export function update(
  weights: Float32Array,
  state: Float32Array,
  given: { readonly gradient: Float32Array; readonly scale: number; readonly options: OptimizerOptions },
): void {
  const { gradient, scale, options } = given;
  const count = weights.length;
  for (let i = 0; i < count; i++) {
    const momentum = Math.fround(options.beta1 * (state[i] as number) + (gradient[i] as number) * scale);
    state[i] = momentum;
    weights[i] = Math.fround((weights[i] as number) - Math.fround(options.lr * momentum));
  }
  state[2 * count] = (state[2 * count] as number) + 1;
}

/** Initial weights of a seed. */
export function initialWeights(count: number, seed: number): Float32Array {
  const random = randomOf(seed, 77);
  return Float32Array.from({ length: count }, () => random.next() - 0.5);
}
