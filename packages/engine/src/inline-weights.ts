import type { SectionBytes } from "@muster/base";
import type { SectionSource, StateSource, StateViews, WeightUpdate } from "./engine.ts";
import { bytesIn, copyBytes } from "./section-bytes.ts";

/** An update with weights that are at hand. */
export function inlineWeights(version: number, data: Uint8Array): WeightUpdate & { readonly via: "inline" } {
  return { version, via: "inline", ...sourceOf(data) };
}

/** A state that is at hand. */
export function inlineState({ weights, optimizer }: StateViews): StateSource {
  return { weights: sourceOf(weights), optimizer: sourceOf(optimizer) };
}

function sourceOf(section: SectionBytes): SectionSource {
  return { bytes: bytesIn(section), copyTo: async (into, from = 0) => copyBytes(section, into, from) };
}
