// Matrix products in the three forms that a linear layer needs. Operands are packed into panels; a 4×8 register tile does the work.
// Each output is summed over k in ascending order whatever the number of rows, so results do not depend on the batch they are in.
import { madd } from "./math";
import { reserve } from "./memory";

const TILE_ROWS: i32 = 4;
const TILE_COLUMNS: i32 = 8;
/** Depth of a packed block. Fixed: it decides where partial sums meet, hence the bits. */
const DEPTH: i32 = 256;
const BLOCK_ROWS: i32 = 64;

let packedA: usize = 0;
let packedB: usize = 0;
let edge: usize = 0;

/** Reserves the packing buffers for outputs of at most `columns` columns. */
export function reserveGemm(columns: i32): void {
  packedA = reserve(BLOCK_ROWS * DEPTH);
  packedB = reserve((columns + TILE_COLUMNS) * DEPTH);
  edge = reserve(TILE_ROWS * TILE_COLUMNS);
}

/** y[rows, outputs] = x[rows, inputs] · wᵀ, with w[outputs, inputs]; added to y when `add`. */
export function linear(x: usize, w: usize, y: usize, rows: i32, outputs: i32, inputs: i32, add: bool): void {
  gemm(rows, outputs, inputs, x, inputs, 1, w, inputs, 1, y, outputs, add);
}

/** As {@link linear}, into rows that are `stride` apart. */
export function linearStrided(x: usize, w: usize, y: usize, rows: i32, outputs: i32, inputs: i32, stride: i32): void {
  gemm(rows, outputs, inputs, x, inputs, 1, w, inputs, 1, y, stride, false);
}

/** Adds x · wᵀ to rows that are `stride` apart. */
export function linearAdded(x: usize, w: usize, y: usize, rows: i32, outputs: i32, inputs: i32, stride: i32): void {
  gemm(rows, outputs, inputs, x, inputs, 1, w, inputs, 1, y, stride, true);
}

/** dx[rows, inputs] = dy[rows, outputs] · w, with dy rows `stride` apart. */
export function linearInput(dy: usize, w: usize, dx: usize, rows: i32, outputs: i32, inputs: i32, stride: i32): void {
  gemm(rows, inputs, outputs, dy, stride, 1, w, 1, inputs, dx, inputs, false);
}

/** dw[outputs, inputs] += dyᵀ · x[rows, inputs], with dy rows `stride` apart. */
export function linearWeight(dy: usize, x: usize, dw: usize, rows: i32, outputs: i32, inputs: i32, stride: i32): void {
  gemm(outputs, inputs, rows, dy, 1, stride, x, 1, inputs, dw, inputs, true);
}

/** C[M, N] (+)= A · B, where A is given by (row, k) strides and B by (column, k) strides; one stride of each pair is 1. */
function gemm(
  M: i32,
  N: i32,
  K: i32,
  A: usize,
  aRow: i32,
  aDepth: i32,
  B: usize,
  bColumn: i32,
  bDepth: i32,
  C: usize,
  cRow: i32,
  add: bool,
): void {
  for (let k = 0; k < K; k += DEPTH) {
    const depth = min(DEPTH, K - k);
    const accumulate = add || k > 0;
    packPanels(packedB, TILE_COLUMNS, N, depth, B + ((k * bDepth) << 2), bColumn, bDepth);
    for (let m = 0; m < M; m += BLOCK_ROWS) {
      const rows = min(BLOCK_ROWS, M - m);
      packPanels(packedA, TILE_ROWS, rows, depth, A + ((m * aRow + k * aDepth) << 2), aRow, aDepth);
      block(rows, N, depth, C + ((m * cRow) << 2), cRow, accumulate);
    }
  }
}

/** Multiplies the packed rows with all packed columns. */
function block(rows: i32, N: i32, depth: i32, C: usize, cRow: i32, add: bool): void {
  for (let n = 0; n < N; n += TILE_COLUMNS) {
    const columns = min(TILE_COLUMNS, N - n);
    const b = packedB + ((n * depth) << 2);
    for (let m = 0; m < rows; m += TILE_ROWS) {
      const a = packedA + ((m * depth) << 2);
      const c = C + ((m * cRow + n) << 2);
      const height = min(TILE_ROWS, rows - m);
      if (height === TILE_ROWS && columns === TILE_COLUMNS) tile(depth, a, b, c, cRow, add);
      else {
        tile(depth, a, b, edge, TILE_COLUMNS, false);
        copyEdge(height, columns, c, cRow, add);
      }
    }
  }
}

function copyEdge(rows: i32, columns: i32, C: usize, cRow: i32, add: bool): void {
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const c = C + ((i * cRow + j) << 2);
      const value = load<f32>(edge + ((i * TILE_COLUMNS + j) << 2));
      store<f32>(c, add ? load<f32>(c) + value : value);
    }
  }
}

/** Lays `count` lanes out as panels: for each `width` lanes, `depth` runs of `width` values; missing lanes are zero. */
function packPanels(
  target: usize,
  width: i32,
  count: i32,
  depth: i32,
  source: usize,
  laneStride: i32,
  depthStride: i32,
): void {
  for (let first = 0; first < count; first += width) {
    const panel = target + ((first * depth) << 2);
    for (let lane = 0; lane < width; lane += 4) {
      const from = source + (((first + lane) * laneStride) << 2);
      packQuad(panel + (lane << 2), width << 2, min(4, count - first - lane), depth, from, laneStride, depthStride);
    }
  }
}

/** Packs four lanes (`valid` of them real) of one panel whose runs are `step` bytes apart. */
function packQuad(to: usize, step: i32, valid: i32, depth: i32, from: usize, laneStride: i32, depthStride: i32): void {
  if (valid < 4) {
    for (let k = 0; k < depth; k++, to += step) {
      for (let i = 0; i < 4; i++) {
        store<f32>(to + (i << 2), i < valid ? load<f32>(from + ((i * laneStride + k * depthStride) << 2)) : 0);
      }
    }
  } else if (laneStride === 1) {
    const stride = depthStride << 2;
    for (let k = 0; k < depth; k++, to += step, from += stride) v128.store(to, v128.load(from));
  } else transposeQuad(to, step, depth, from, laneStride << 2);
}

/** Interleaves four contiguous source rows. */
function transposeQuad(to: usize, step: i32, depth: i32, row0: usize, stride: i32): void {
  const row1 = row0 + stride;
  const row2 = row1 + stride;
  const row3 = row2 + stride;
  let k: usize = 0;
  for (const whole = (depth & ~3) << 2; k < (whole as usize); k += 16) {
    const r0 = v128.load(row0 + k);
    const r1 = v128.load(row1 + k);
    const r2 = v128.load(row2 + k);
    const r3 = v128.load(row3 + k);
    const low01 = v128.shuffle<f32>(r0, r1, 0, 4, 1, 5);
    const high01 = v128.shuffle<f32>(r0, r1, 2, 6, 3, 7);
    const low23 = v128.shuffle<f32>(r2, r3, 0, 4, 1, 5);
    const high23 = v128.shuffle<f32>(r2, r3, 2, 6, 3, 7);
    v128.store(to, v128.shuffle<f32>(low01, low23, 0, 1, 4, 5));
    v128.store(to + step, v128.shuffle<f32>(low01, low23, 2, 3, 6, 7));
    v128.store(to + 2 * step, v128.shuffle<f32>(high01, high23, 0, 1, 4, 5));
    v128.store(to + 3 * step, v128.shuffle<f32>(high01, high23, 2, 3, 6, 7));
    to += 4 * step;
  }
  for (const end = (depth << 2) as usize; k < end; k += 4, to += step) {
    store<f32>(to, load<f32>(row0 + k));
    store<f32>(to + 4, load<f32>(row1 + k));
    store<f32>(to + 8, load<f32>(row2 + k));
    store<f32>(to + 12, load<f32>(row3 + k));
  }
}

/** One 4×8 tile: C (+)= the product of two panels. */
function tile(depth: i32, a: usize, b: usize, C: usize, cRow: i32, add: bool): void {
  let c00 = f32x4.splat(0);
  let c01 = c00;
  let c10 = c00;
  let c11 = c00;
  let c20 = c00;
  let c21 = c00;
  let c30 = c00;
  let c31 = c00;
  for (const end = b + ((depth * TILE_COLUMNS) << 2); b < end; a += 16, b += 32) {
    const b0 = v128.load(b);
    const b1 = v128.load(b, 16);
    let splat = v128.load_splat<f32>(a);
    c00 = madd(c00, splat, b0);
    c01 = madd(c01, splat, b1);
    splat = v128.load_splat<f32>(a, 4);
    c10 = madd(c10, splat, b0);
    c11 = madd(c11, splat, b1);
    splat = v128.load_splat<f32>(a, 8);
    c20 = madd(c20, splat, b0);
    c21 = madd(c21, splat, b1);
    splat = v128.load_splat<f32>(a, 12);
    c30 = madd(c30, splat, b0);
    c31 = madd(c31, splat, b1);
  }
  const stride = cRow << 2;
  putRow(C, c00, c01, add);
  putRow(C + stride, c10, c11, add);
  putRow(C + 2 * stride, c20, c21, add);
  putRow(C + 3 * stride, c30, c31, add);
}

function putRow(at: usize, low: v128, high: v128, add: bool): void {
  v128.store(at, add ? f32x4.add(v128.load(at), low) : low);
  v128.store(at, add ? f32x4.add(v128.load(at, 16), high) : high, 16);
}
