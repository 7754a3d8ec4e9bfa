/** The training state that a job begins with. */
import type { StateSections } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import { initialWeights } from "../engine/arithmetic.ts";
import { shapeOf } from "../engine/info.ts";
import { optimizerBytesOf } from "./section-digest.ts";

/** What policy engines hold before anybody trained; unknown where a job begins with a checkpoint. Pure. */
export function startOf(config: JobConfig): { readonly start?: StateSections } {
  const { weights: from, model } = config;
  if (from.kind !== "seed") return {};
  const { count } = shapeOf(model);
  const weights = new Uint8Array(initialWeights(count, from.seed).buffer);
  return {
    start: { weights, optimizer: new Uint8Array(optimizerBytesOf(config).reduce((sum, bytes) => sum + bytes)) },
  };
}
