// Elementary functions and vector helpers. Every bit is decided here: no host functions, no relaxed SIMD, a fixed order of additions.

/** a + b * c, rounded twice: fused multiply-add would differ between processors. */
export function madd(a: v128, b: v128, c: v128): v128 {
  return f32x4.add(a, f32x4.mul(b, c));
}

/** Sum of the four lanes, left to right. */
export function lanes(v: v128): f32 {
  return f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) + f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3);
}

/** e^x, Cephes polynomial, relative error about 1e-7; exactly 0 below −87.3, clamped above 88.3. */
export function exp4(x: v128): v128 {
  const alive = f32x4.gt(x, f32x4.splat(-87.3));
  x = f32x4.min(f32x4.max(x, f32x4.splat(-87.3)), f32x4.splat(88.3));
  const n = f32x4.nearest(f32x4.mul(x, f32x4.splat(<f32>Math.LOG2E)));
  // x − n·ln 2, with ln 2 split in two so that the first product is exact.
  x = f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693359375)));
  x = madd(x, n, f32x4.splat(2.1219444e-4));
  let y = madd(f32x4.splat(1.3981999507e-3), f32x4.splat(1.98756915e-4), x);
  y = madd(f32x4.splat(8.3334519073e-3), y, x);
  y = madd(f32x4.splat(4.1665795894e-2), y, x);
  y = madd(f32x4.splat(1.6666665459e-1), y, x);
  y = madd(f32x4.splat(5.0000001201e-1), y, x);
  y = f32x4.add(madd(x, f32x4.mul(y, x), x), f32x4.splat(1));
  const scale = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(n), i32x4.splat(127)), 23);
  return v128.and(f32x4.mul(y, scale), alive);
}

/** Natural logarithm of positive normal numbers, Cephes polynomial, absolute error about 1e-7. */
export function log4(x: v128): v128 {
  let exponent = i32x4.sub(i32x4.shr_u(x, 23), i32x4.splat(126));
  let m = v128.or(v128.and(x, i32x4.splat(0x7fffff)), i32x4.splat(0x3f000000));
  const small = f32x4.lt(m, f32x4.splat(<f32>Math.SQRT1_2));
  exponent = i32x4.add(exponent, small); // `small` is −1 where true
  m = f32x4.sub(f32x4.add(m, v128.and(m, small)), f32x4.splat(1));
  const z = f32x4.mul(m, m);
  const e = f32x4.convert_i32x4_s(exponent);
  let y = madd(f32x4.splat(-1.151461031e-1), f32x4.splat(7.0376836292e-2), m);
  y = madd(f32x4.splat(1.167699874e-1), y, m);
  y = madd(f32x4.splat(-1.2420140846e-1), y, m);
  y = madd(f32x4.splat(1.4249322787e-1), y, m);
  y = madd(f32x4.splat(-1.6668057665e-1), y, m);
  y = madd(f32x4.splat(2.0000714765e-1), y, m);
  y = madd(f32x4.splat(-2.4999993993e-1), y, m);
  y = madd(f32x4.splat(3.3333331174e-1), y, m);
  y = f32x4.mul(y, f32x4.mul(m, z));
  y = madd(y, e, f32x4.splat(-2.1219444e-4));
  y = f32x4.sub(y, f32x4.mul(z, f32x4.splat(0.5)));
  return madd(f32x4.add(m, y), e, f32x4.splat(0.693359375));
}

/** e^x of one number, the same bits as a lane of {@link exp4}. The host uses it for the importance ratio. */
export function exponential(x: f32): f32 {
  return f32x4.extract_lane(exp4(f32x4.splat(x)), 0);
}

/** Log of a probability, floored at 1e-30; NaN stays NaN. */
export function logProbability(p: f32): f32 {
  if (!(p >= 0)) return f32.NaN;
  return f32x4.extract_lane(log4(f32x4.splat(max(p, <f32>1e-30))), 0);
}

/** Multiplies `count` scores, in place: the inverse of a temperature, the same bits for whoever samples and whoever trains. */
export function sharpen(row: usize, count: i32, by: f32): void {
  if (by === 1) return;
  for (const end = row + ((count as usize) << 2); row < end; row += 4) store<f32>(row, load<f32>(row) * by);
}

/** Turns `count` scores into probabilities, in place. The row has room for whole vectors; its padding becomes exactly 0. */
export function softmax(row: usize, count: i32): void {
  const end = row + ((count as usize) << 2);
  const stop = (end + 15) & ~(15 as usize);
  for (let p = end; p < stop; p += 4) store<f32>(p, -1e30);
  let highest = v128.load(row);
  for (let p = row + 16; p < stop; p += 16) highest = f32x4.max(highest, v128.load(p));
  const peak = f32x4.splat(
    max(
      max(f32x4.extract_lane(highest, 0), f32x4.extract_lane(highest, 1)),
      max(f32x4.extract_lane(highest, 2), f32x4.extract_lane(highest, 3)),
    ),
  );
  let sum = f32x4.splat(0);
  for (let p = row; p < stop; p += 16) {
    const e = exp4(f32x4.sub(v128.load(p), peak));
    v128.store(p, e);
    sum = f32x4.add(sum, e);
  }
  const scale = f32x4.splat(<f32>1 / lanes(sum));
  for (let p = row; p < stop; p += 16) v128.store(p, f32x4.mul(v128.load(p), scale));
}

/** Sets `count` values to zero. */
export function clear(start: usize, count: i32): void {
  memory.fill(start, 0, (count as usize) << 2);
}

/** target += factor · source, `count` a multiple of four. */
export function addScaled(target: usize, factor: f32, source: usize, count: i32): void {
  const k = f32x4.splat(factor);
  for (let end = target + ((count as usize) << 2); target < end; target += 16, source += 16) {
    v128.store(target, madd(v128.load(target), k, v128.load(source)));
  }
}
