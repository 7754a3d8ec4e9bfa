/**
 * An independent Llama in plain double precision: one token at a time, nested arrays, no batching, no tricks.
 * Gradients come from reverse-mode differentiation over a tape of scalars, so no formula is shared with the core.
 */
import type { ModelConfig } from "../../src/embedded/index.ts";

/** A scalar on the tape: its value, its gradient, and how the gradient flows to its parents. */
class Scalar {
  value: number;
  gradient = 0;
  readonly parents: readonly (readonly [Scalar, number])[];
  constructor(value: number, parents: readonly (readonly [Scalar, number])[] = []) {
    this.value = value;
    this.parents = parents;
    tape.push(this);
  }
}

let tape: Scalar[] = [];

const add = (a: Scalar, b: Scalar): Scalar =>
  new Scalar(a.value + b.value, [
    [a, 1],
    [b, 1],
  ]);
const multiply = (a: Scalar, b: Scalar): Scalar =>
  new Scalar(a.value * b.value, [
    [a, b.value],
    [b, a.value],
  ]);
const scale = (a: Scalar, k: number): Scalar => new Scalar(a.value * k, [[a, k]]);
const shift = (a: Scalar, k: number): Scalar => new Scalar(a.value + k, [[a, 1]]);
const apply = (a: Scalar, value: number, slope: number): Scalar => new Scalar(value, [[a, slope]]);
const exp = (a: Scalar): Scalar => apply(a, Math.exp(a.value), Math.exp(a.value));
const log = (a: Scalar): Scalar => apply(a, Math.log(a.value), 1 / a.value);
const inverse = (a: Scalar): Scalar => apply(a, 1 / a.value, -1 / a.value ** 2);
const inverseRoot = (a: Scalar): Scalar => apply(a, a.value ** -0.5, -0.5 * a.value ** -1.5);
/** Σ aᵢ · bᵢ as one node, to keep the tape short. */
function dot(a: readonly Scalar[], b: readonly Scalar[]): Scalar {
  const parents = a.flatMap((x, i) => [[x, b[i]!.value] as const, [b[i]!, x.value] as const]);
  return new Scalar(
    a.reduce((sum, x, i) => sum + x.value * b[i]!.value, 0),
    parents,
  );
}
const total = (items: readonly Scalar[]): Scalar =>
  new Scalar(
    items.reduce((sum, x) => sum + x.value, 0),
    items.map((x) => [x, 1]),
  );

type Vector = readonly Scalar[];
type Matrix = readonly Vector[];

/** Result of {@link reference}: like the core's, per row and position. */
export interface ReferenceResult {
  readonly logprobs: readonly (readonly number[])[];
  readonly entropies: readonly (readonly number[])[];
  /** Of Σ coefficient · log-prob + Σ entropyCoefficient · entropy, in the order of the flat buffer. */
  readonly gradient: readonly number[];
}

/** Runs rows forward and differentiates the weighted sum of log-probs and entropies. */
export function reference(
  model: ModelConfig,
  weights: ArrayLike<number>,
  rows: readonly (readonly number[])[],
  coefficients: {
    readonly logprob: (row: number, t: number) => number;
    readonly entropy: (row: number, t: number) => number;
  },
  temperature = 1,
): ReferenceResult {
  tape = [];
  const leaves = Array.from(weights, (value) => new Scalar(value));
  const outcomes = rows.map((tokens) => forwardRow(model, { leaves, tokens, temperature }));
  outcomes.forEach(({ logprobs, entropies }, row) => {
    logprobs.forEach((node, t) => {
      node.gradient += coefficients.logprob(row, t);
    });
    entropies.forEach((node, t) => {
      node.gradient += coefficients.entropy(row, t);
    });
  });
  for (let i = tape.length - 1; i >= 0; i--) {
    const node = tape[i]!;
    if (node.gradient !== 0) for (const [parent, slope] of node.parents) parent.gradient += node.gradient * slope;
  }
  return {
    logprobs: outcomes.map((outcome) => outcome.logprobs.map((node) => node.value)),
    entropies: outcomes.map((outcome) => outcome.entropies.map((node) => node.value)),
    gradient: leaves.map((leaf) => leaf.gradient),
  };
}

function forwardRow(
  model: ModelConfig,
  given: { readonly leaves: Vector; readonly tokens: readonly number[]; readonly temperature: number },
) {
  const { leaves, tokens, temperature } = given;
  const { hidden, heads, kvHeads, ffn, vocab } = model;
  const size = hidden / heads;
  let at = 0;
  const vector = (n: number): Vector => {
    at += n;
    return leaves.slice(at - n, at);
  };
  const matrix = (rows: number, columns: number): Matrix => Array.from({ length: rows }, () => vector(columns));
  const embeddings = matrix(vocab, hidden);
  let x: Matrix = tokens.map((token) => embeddings[token]!);
  for (let layer = 0; layer < model.layers; layer++) {
    const [q, k, v, o] = [
      matrix(hidden, hidden),
      matrix(kvHeads * size, hidden),
      matrix(kvHeads * size, hidden),
      matrix(hidden, hidden),
    ];
    const [gate, up, down] = [matrix(ffn, hidden), matrix(ffn, hidden), matrix(hidden, ffn)];
    const [inputNorm, middleNorm] = [vector(hidden), vector(hidden)];
    const normed = x.map((row) => norm(row, inputNorm));
    const queries = normed.map((row, t) => rotated(times(q, row), size, t));
    const keys = normed.map((row, t) => rotated(times(k, row), size, t));
    const values = normed.map((row) => times(v, row));
    x = x.map((row, t) =>
      plus(row, times(o, attend(queries[t]!, keys.slice(0, t + 1), values, { heads, kvHeads, size }))),
    );
    x = x.map((row) => plus(row, gated(norm(row, middleNorm), gate, up, down)));
  }
  const finalNorm = vector(hidden);
  const head = model.tied ? embeddings : matrix(vocab, hidden);
  const distributions = x.map((row) =>
    softmax(times(head, norm(row, finalNorm)).map((logit) => scale(logit, 1 / temperature))),
  );
  return {
    logprobs: distributions.slice(0, -1).map((p, t) => log(p[tokens[t + 1]!]!)),
    entropies: distributions.map((p) => scale(total(p.map((value) => multiply(value, log(value)))), -1)),
  };
}

const times = (matrix: Matrix, x: Vector): Vector => matrix.map((row) => dot(row, x));
const plus = (a: Vector, b: Vector): Vector => a.map((value, i) => add(value, b[i]!));

function norm(x: Vector, weight: Vector): Vector {
  const factor = inverseRoot(shift(scale(dot(x, x), 1 / x.length), 1e-5));
  return x.map((value, i) => multiply(multiply(value, factor), weight[i]!));
}

function rotated(x: Vector, size: number, position: number): Vector {
  return x.map((value, i) => {
    const j = i % size;
    const half = size / 2;
    const angle = position * 10000 ** (-(2 * (j % half)) / size);
    const partner = j < half ? scale(x[i + half]!, -1) : x[i - half]!;
    return add(scale(value, Math.cos(angle)), scale(partner, Math.sin(angle)));
  });
}

function attend(
  query: Vector,
  keys: Matrix,
  values: Matrix,
  { heads, kvHeads, size }: { readonly heads: number; readonly kvHeads: number; readonly size: number },
): Vector {
  return Array.from({ length: heads }, (_, head) => {
    const kv = Math.floor(head / (heads / kvHeads)) * size;
    const mine = query.slice(head * size, (head + 1) * size);
    const scores = keys.map((key) => scale(dot(mine, key.slice(kv, kv + size)), size ** -0.5));
    const p = softmax(scores);
    return Array.from({ length: size }, (_, j) =>
      dot(
        p,
        p.map((_, s) => values[s]![kv + j]!),
      ),
    );
  }).flat();
}

function softmax(x: Vector): Vector {
  const powers = x.map(exp);
  const factor = inverse(total(powers));
  return powers.map((power) => multiply(power, factor));
}

function gated(x: Vector, gate: Matrix, up: Matrix, down: Matrix): Vector {
  const ups = times(up, x);
  const active = times(gate, x).map((value, i) => {
    const sigmoid = inverse(shift(exp(scale(value, -1)), 1));
    return multiply(multiply(value, sigmoid), ups[i]!);
  });
  return times(down, active);
}
