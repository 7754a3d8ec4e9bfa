import type { SectionSource, StateSections, StateSource, WeightUpdate } from "./engine.ts";

/** An update with weights that are at hand. */
export function inlineWeights(version: number, data: Uint8Array): WeightUpdate & { readonly via: "inline" } {
  return { version, via: "inline", ...sourceOf(data) };
}

/** A state that is at hand. */
export function inlineState({ weights, optimizer }: StateSections): StateSource {
  return { weights: sourceOf(weights), optimizer: sourceOf(optimizer) };
}

function sourceOf(data: Uint8Array): SectionSource {
  return { bytes: data.length, copyTo: async (into) => into.set(data) };
}
