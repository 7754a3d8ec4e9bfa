// One of several ranks: it has the rows of each weight that make its share of the outputs, and its heads' part of the cache. The host
// carries what a rank computed to the others between these calls. Every output is summed by one rank alone, in the order in which a
// single instance sums it, so the bits are the same for every number of ranks.
import { linear, linearAdded, linearStrided } from "./gemm";
import { rmsNorm, swiglu } from "./layers";
import { reserve } from "./memory";
import * as m from "./model";
import * as s from "./sample";

/** What this rank computed of the last product: rows without gaps, for the others. */
export let rankPart: usize = 0;
/** Where the host puts a part of another rank before {@link placePart}. */
export let rankArrived: usize = 0;
/** Attention or activation of all ranks: what the next product reads, [rows, hidden or ffn]. */
export let rankWhole: usize = 0;
/** Residual stream and logits, whole. */
export let rankStream: usize = 0;
export let rankLogits: usize = 0;

/** First column of the residual stream that this rank computes, and how many there are. */
let firstColumn: i32 = 0;

/** Reserves a cache of `count` slots for rank `rank` of `ranks`; `vocabRows` is the longest part of the vocabulary. */
export function defineRank(count: i32, rank: i32, ranks: i32, vocabRows: i32): void {
  s.reserveSampler(count, ranks);
  firstColumn = rank * s.querySize;
  const widest = max(max(s.querySize, s.gateSize), vocabRows);
  rankPart = reserve(count * widest);
  rankArrived = reserve(count * widest);
  rankWhole = reserve(count * max(m.hidden, m.ffn));
  rankStream = s.x;
  rankLogits = s.logits;
}

/** Attention of this rank's heads, to be placed into the whole. */
export function attendPart(layer: i32, rows: i32, norm: usize, query: usize, key: usize, value: usize): void {
  rmsNorm(s.x, norm, s.normed, s.scales, rows);
  const keys = s.qkv + (s.querySize << 2);
  linearStrided(s.normed, query, s.qkv, rows, s.querySize, m.hidden, s.qkvSize);
  linearStrided(s.normed, key, keys, rows, s.kvSize, m.hidden, s.qkvSize);
  linearStrided(s.normed, value, keys + (s.kvSize << 2), rows, s.kvSize, m.hidden, s.qkvSize);
  for (let i = 0; i < rows; i++) s.attendRow(layer, i);
  memory.copy(rankPart, s.mixed, ((rows * s.querySize) as usize) << 2);
}

/** Gated activation of this rank's rows, to be placed into the whole. */
export function gatePart(rows: i32, norm: usize, gate: usize, up: usize): void {
  rmsNorm(s.x, norm, s.normed, s.scales, rows);
  linearStrided(s.normed, gate, s.gateUp, rows, s.gateSize, m.hidden, 2 * s.gateSize);
  linearStrided(s.normed, up, s.gateUp + (s.gateSize << 2), rows, s.gateSize, m.hidden, 2 * s.gateSize);
  swiglu(s.gateUp, rankPart, rows, s.gateSize);
}

/** Adds the product of the whole with this rank's rows of `weight` to its columns of the residual stream. */
export function addPart(rows: i32, weight: usize, inputs: i32): void {
  const columns = s.x + (firstColumn << 2);
  linearAdded(rankWhole, weight, columns, rows, s.querySize, inputs, m.hidden);
  const bytes = s.querySize << 2;
  for (let i = 0; i < rows; i++) memory.copy(rankPart + i * bytes, columns + ((i * m.hidden) << 2), bytes);
}

/** Logits of `outputs` token ids, to be placed into the logits. */
export function logitsPart(rows: i32, norm: usize, weight: usize, outputs: i32): void {
  rmsNorm(s.x, norm, s.normed, s.scales, rows);
  linear(s.normed, weight, rankPart, rows, outputs, m.hidden, false);
}

/** Puts rows without gaps, `width` values each, into rows that are `stride` values apart. */
export function placePart(part: usize, width: i32, rows: i32, target: usize, stride: i32): void {
  const bytes = width << 2;
  for (let i = 0; i < rows; i++) memory.copy(target + ((i * stride) << 2), part + i * bytes, bytes);
}

/** Chooses the next token of each row from the whole logits. */
export function chooseRows(rows: i32): void {
  for (let i = 0; i < rows; i++) s.choose(i);
}
