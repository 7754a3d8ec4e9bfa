import type { WeightUpdate } from "./engine.ts";

/** An update with weights that are at hand. */
export function inlineWeights(version: number, data: Uint8Array): WeightUpdate & { readonly via: "inline" } {
  const copyTo = async (into: Uint8Array): Promise<void> => into.set(data);
  return { version, via: "inline", bytes: data.length, copyTo };
}
