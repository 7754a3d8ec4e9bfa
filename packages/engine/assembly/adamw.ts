// One AdamW update (arXiv 1711.05101, algorithm 2) with clipping by the global norm (arXiv 1211.5063).
import { madd } from "./math";

/** Euclidean norm of `count` values, summed in double precision in index order. NaN or infinite when a value is. */
export function norm(values: usize, count: i32): f64 {
  let sum: f64 = 0;
  for (const end = values + ((count as usize) << 2); values < end; values += 4) {
    const value = <f64>load<f32>(values);
    sum += value * value;
  }
  return sqrt<f64>(sum);
}

/** Updates `count` weights and both moments (a multiple of four). `scale` multiplies the gradient; `update` counts from 1. */
export function adamw(
  weights: usize,
  first: usize,
  second: usize,
  gradient: usize,
  count: i32,
  update: i32,
  scale: f64,
  rate: f64,
  beta1: f64,
  beta2: f64,
  epsilon: f64,
  decay: f64,
): void {
  const k = f32x4.splat(<f32>scale);
  const keep1 = f32x4.splat(<f32>beta1);
  const take1 = f32x4.splat(<f32>(1 - beta1));
  const keep2 = f32x4.splat(<f32>beta2);
  const take2 = f32x4.splat(<f32>(1 - beta2));
  const unbias1 = f32x4.splat(<f32>(1 / (1 - power(beta1, update))));
  const unbias2 = f32x4.splat(<f32>(1 / (1 - power(beta2, update))));
  const guard = f32x4.splat(<f32>epsilon);
  const step = f32x4.splat(<f32>rate);
  const shrink = f32x4.splat(<f32>decay);
  const bytes = (count as usize) << 2;
  for (let i: usize = 0; i < bytes; i += 16) {
    const g = f32x4.mul(v128.load(gradient + i), k);
    const a = madd(f32x4.mul(keep1, v128.load(first + i)), take1, g);
    const b = madd(f32x4.mul(keep2, v128.load(second + i)), f32x4.mul(take2, g), g);
    v128.store(first + i, a);
    v128.store(second + i, b);
    const w = v128.load(weights + i);
    const root = f32x4.add(f32x4.sqrt(f32x4.mul(b, unbias2)), guard);
    const change = madd(f32x4.div(f32x4.mul(a, unbias1), root), shrink, w);
    v128.store(weights + i, f32x4.sub(w, f32x4.mul(step, change)));
  }
}

/** base^exponent by squaring: multiplications only, so the bits are the same everywhere. */
function power(base: f64, exponent: i32): f64 {
  let result: f64 = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) if (exponent & 1) result *= base;
  return result;
}
