// Random initial weights: a pure function of the seed and the shape.
import * as m from "./model";

let state: u32 = 0;

/** mulberry32, in (0, 1]. */
function uniform(): f64 {
  state += 0x6d2b79f5;
  let t = (state ^ (state >> 15)) * (state | 1);
  t = (t + (t ^ (t >> 7)) * (t | 61)) ^ t;
  return (<f64>(t ^ (t >> 14)) + 1) / 4294967296.0;
}

/** Fills with normal numbers (Box–Muller) of the given deviation; returns the end. */
function gaussians(at: usize, count: i32, deviation: f64): usize {
  for (const end = at + ((count as usize) << 2); at < end; at += 4) {
    const radius = Math.sqrt(-2 * Math.log(uniform()));
    store<f32>(at, <f32>(radius * Math.cos(6.283185307179586 * uniform()) * deviation));
  }
  return at;
}

function ones(at: usize, count: i32): usize {
  for (const end = at + ((count as usize) << 2); at < end; at += 4) store<f32>(at, 1);
  return at;
}

/** Writes initial weights: embeddings 0.02, projections 0.6 / √fan-in, residual outputs divided by √(2 · layers), norms 1. */
export function initialize(weights: usize, seed: u32): void {
  // murmur3 finaliser, so that neighbouring seeds start far apart
  state = (seed ^ (seed >> 16)) * 0x85ebca6b;
  state = (state ^ (state >> 13)) * 0xc2b2ae35;
  state ^= state >> 16;
  const narrow = 0.6 / Math.sqrt(m.hidden);
  const residual = Math.sqrt(2 * m.layers);
  let at = gaussians(weights, m.vocab * m.hidden, 0.02);
  for (let layer = 0; layer < m.layers; layer++) {
    at = gaussians(at, m.qkvSize * m.hidden, narrow);
    at = gaussians(at, m.hidden * m.hidden, narrow / residual);
    at = gaussians(at, 2 * m.ffn * m.hidden, narrow);
    at = gaussians(at, m.hidden * m.ffn, 0.6 / Math.sqrt(m.ffn) / residual);
    at = ones(at, 2 * m.hidden);
  }
  at = ones(at, m.hidden);
  if (!m.tied) gaussians(at, m.vocab * m.hidden, 0.02);
}
