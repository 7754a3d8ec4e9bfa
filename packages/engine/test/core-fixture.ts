/** A small core with weights, and shorthand to run it. */
import { randomOf } from "@muster/base";
import { openCore } from "../src/embedded/core.ts";
import { fillTokens } from "../src/embedded/gradient.ts";
import type { ModelConfig } from "../src/embedded/index.ts";

/** Shapes that reach every edge: vocabulary and context that are no multiples of four, grouped queries, both kinds of head. */
export const shapes: readonly ModelConfig[] = [
  { vocab: 11, hidden: 16, layers: 2, heads: 2, kvHeads: 1, ffn: 12, maxContext: 7, tied: true },
  { vocab: 6, hidden: 24, layers: 1, heads: 3, kvHeads: 3, ffn: 20, maxContext: 9, tied: false },
];

/** A core with random weights, norms included, so that no gradient is zero by symmetry. */
export function openFixture(model: ModelConfig, options: { readonly rows?: number; readonly slots?: number } = {}) {
  const core = openCore(model, { tokens: (options.rows ?? 8) * model.maxContext, slots: options.slots ?? 0 });
  const weights = core.call.reserve(core.parameters);
  const gradient = core.call.reserve(core.parameters);
  core.call.initialize(weights, 5);
  const random = randomOf(17);
  const values = core.floats(weights, core.parameters);
  values.forEach((value, i) => {
    values[i] = value + (random.next() - 0.5) * 0.3;
  });
  return {
    core,
    weights,
    gradient,
    values,
    /** Random rows of one length. */
    rows: (count: number, length: number): Int32Array[] =>
      Array.from({ length: count }, () => Int32Array.from({ length }, () => random.below(model.vocab))),
    /** Log-probs and entropies of each row. */
    forward(rows: readonly Int32Array[]): { logprobs: Float32Array[]; entropies: Float32Array[] } {
      const length = fillTokens(core, rows);
      core.call.forward(weights, rows.length, length);
      const part = (at: number): Float32Array[] => rows.map((_, i) => core.floats(at + 4 * i * length, length).slice());
      return { logprobs: part(core.call.logprobs.value), entropies: part(core.call.entropies.value) };
    },
  };
}
