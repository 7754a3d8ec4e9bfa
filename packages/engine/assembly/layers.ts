// The parts of a decoder layer that are not matrix products: norm, rotary embedding, attention, gated activation, with their gradients.
// Training and sampling call the same functions, which is why their log-probabilities agree bit for bit.
import { exp4, lanes, madd, softmax } from "./math";
import { headSize, hidden, ropeCos, ropeSin } from "./model";

const EPSILON: f32 = 1e-5;

/** RMSNorm (arXiv 1910.07467) of each row; keeps 1 / rms in `scales` for the gradient. */
export function rmsNorm(x: usize, weight: usize, y: usize, scales: usize, rows: i32): void {
  const bytes = (hidden as usize) << 2;
  for (let i = 0; i < rows; i++, x += bytes, y += bytes) {
    let squares = f32x4.splat(0);
    for (let j: usize = 0; j < bytes; j += 16) squares = madd(squares, v128.load(x + j), v128.load(x + j));
    const scale: f32 = <f32>1 / sqrt<f32>(lanes(squares) / <f32>hidden + EPSILON);
    store<f32>(scales + (i << 2), scale);
    const k = f32x4.splat(scale);
    for (let j: usize = 0; j < bytes; j += 16) {
      v128.store(y + j, f32x4.mul(f32x4.mul(v128.load(x + j), k), v128.load(weight + j)));
    }
  }
}

/** Adds the gradient of {@link rmsNorm} to `dx` and to `dWeight`. */
export function rmsNormBackward(
  x: usize,
  weight: usize,
  scales: usize,
  dy: usize,
  dx: usize,
  dWeight: usize,
  rows: i32,
): void {
  const bytes = (hidden as usize) << 2;
  for (let i = 0; i < rows; i++, x += bytes, dy += bytes, dx += bytes) {
    const scale = load<f32>(scales + (i << 2));
    let product = f32x4.splat(0);
    for (let j: usize = 0; j < bytes; j += 16) {
      product = madd(product, f32x4.mul(v128.load(x + j), v128.load(dy + j)), v128.load(weight + j));
    }
    const k = f32x4.splat(scale);
    const pull = f32x4.splat((scale * scale * scale * lanes(product)) / <f32>hidden);
    for (let j: usize = 0; j < bytes; j += 16) {
      const scaled = f32x4.mul(k, v128.load(dy + j));
      v128.store(dWeight + j, madd(v128.load(dWeight + j), scaled, v128.load(x + j)));
      const direct = madd(v128.load(dx + j), scaled, v128.load(weight + j));
      v128.store(dx + j, f32x4.sub(direct, f32x4.mul(pull, v128.load(x + j))));
    }
  }
}

/** Rotates `count` heads by their position (rotate-half form); `direction` −1 turns back, which is the gradient. */
export function rotate(row: usize, count: i32, position: i32, direction: f32): void {
  const half = headSize >> 1;
  const cos = ropeCos + ((position * half) << 2);
  const sin = ropeSin + ((position * half) << 2);
  const middle = half << 2;
  for (let head = 0; head < count; head++, row += headSize << 2) {
    for (let i = 0; i < middle; i += 4) {
      const a = load<f32>(row + i);
      const b = load<f32>(row + middle + i);
      const c = load<f32>(cos + i);
      const s = direction * load<f32>(sin + i);
      store<f32>(row + i, a * c - b * s);
      store<f32>(row + middle + i, b * c + a * s);
    }
  }
}

/** Copies `count` rows of one head into columns, `stride` values apart. The tail of the last vector becomes zero. */
export function transposeHead(rows: usize, rowStride: i32, count: i32, columns: usize, stride: i32): void {
  for (let j = 0; j < headSize; j++) {
    const column = columns + ((j * stride) << 2);
    for (let s = 0; s < count; s++) store<f32>(column + (s << 2), load<f32>(rows + ((s * rowStride + j) << 2)));
    for (let s = count; (s & 3) !== 0; s++) store<f32>(column + (s << 2), 0);
  }
}

/** out[s] = factor · Σⱼ row[j] · columns[j, s] for s < count, in whole vectors. */
export function project(row: usize, columns: usize, stride: i32, count: i32, factor: f32, out: usize): void {
  const step = (stride as usize) << 2;
  const k = f32x4.splat(factor);
  const size = (headSize as usize) << 2;
  for (let s: usize = 0; s < (count as usize) << 2; s += 16) {
    let sum = f32x4.splat(0);
    let column = columns + s;
    for (let j: usize = 0; j < size; j += 4, column += step) {
      sum = madd(sum, v128.load_splat<f32>(row + j), v128.load(column));
    }
    v128.store(out + s, f32x4.mul(sum, k));
  }
}

/** out[j] = Σₛ factors[s] · rows[s, j] for one head. */
export function combine(factors: usize, rows: usize, rowStride: i32, count: i32, out: usize): void {
  const step = (rowStride as usize) << 2;
  const end = factors + ((count as usize) << 2);
  for (let j = 0; j < headSize << 2; j += 16) {
    let sum = f32x4.splat(0);
    let row = rows + j;
    for (let f = factors; f < end; f += 4, row += step) sum = madd(sum, v128.load_splat<f32>(f), v128.load(row));
    v128.store(out + j, sum);
  }
}

/** rows[s, j] += factors[s] · row[j] for one head. */
export function spread(factors: usize, row: usize, rows: usize, rowStride: i32, count: i32): void {
  const step = (rowStride as usize) << 2;
  const end = factors + ((count as usize) << 2);
  for (let j = 0; j < headSize << 2; j += 16) {
    const value = v128.load(row + j);
    let target = rows + j;
    for (let f = factors; f < end; f += 4, target += step) {
      v128.store(target, madd(v128.load(target), v128.load_splat<f32>(f), value));
    }
  }
}

/** Attention of one query over `count` keys (as columns) and values (as rows); leaves the probabilities in `scores`. */
export function attend(
  query: usize,
  keyColumns: usize,
  columnStride: i32,
  values: usize,
  valueStride: i32,
  count: i32,
  scores: usize,
  out: usize,
): void {
  project(query, keyColumns, columnStride, count, <f32>1 / sqrt<f32>(<f32>headSize), scores);
  softmax(scores, count);
  combine(scores, values, valueStride, count, out);
}

/** silu(gate) · up (arXiv 2002.05202), for rows that hold gate and up side by side. */
export function swiglu(gateUp: usize, out: usize, rows: i32, size: i32): void {
  const bytes = (size as usize) << 2;
  const one = f32x4.splat(1);
  for (let i = 0; i < rows; i++, gateUp += 2 * bytes, out += bytes) {
    for (let j: usize = 0; j < bytes; j += 16) {
      const gate = v128.load(gateUp + j);
      const sigmoid = f32x4.div(one, f32x4.add(one, exp4(f32x4.neg(gate))));
      v128.store(out + j, f32x4.mul(f32x4.mul(gate, sigmoid), v128.load(gateUp + bytes + j)));
    }
  }
}

/** Gradient of {@link swiglu}. */
export function swigluBackward(gateUp: usize, dOut: usize, dGateUp: usize, rows: i32, size: i32): void {
  const bytes = (size as usize) << 2;
  const one = f32x4.splat(1);
  for (let i = 0; i < rows; i++, gateUp += 2 * bytes, dGateUp += 2 * bytes, dOut += bytes) {
    for (let j: usize = 0; j < bytes; j += 16) {
      const gate = v128.load(gateUp + j);
      const sigmoid = f32x4.div(one, f32x4.add(one, exp4(f32x4.neg(gate))));
      const d = v128.load(dOut + j);
      const slope = f32x4.mul(sigmoid, madd(one, gate, f32x4.sub(one, sigmoid)));
      v128.store(dGateUp + j, f32x4.mul(f32x4.mul(d, v128.load(gateUp + bytes + j)), slope));
      v128.store(dGateUp + bytes + j, f32x4.mul(d, f32x4.mul(gate, sigmoid)));
    }
  }
}
