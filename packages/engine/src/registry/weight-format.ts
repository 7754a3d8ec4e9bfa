/** Whether a sampler can take what a trainer publishes: the model, its tokenizer and each row of the tensor table, or what they are converted into. */
import { messageOf } from "@muster/base";
import { type PlacedTensor, SectionConversion } from "@muster/tensors";
import type { EngineDescription } from "./adapter.ts";

/** What two engines must agree on so that weights of the one are weights of the other. */
export type WeightFormat = Pick<EngineDescription, "modelId" | "vocab" | "tokenizer" | "tensors" | "conversion">;

/** The first thing in which two formats differ. */
export interface FormatDifference {
  readonly what: string;
  readonly trainer: string;
  readonly sampler: string;
}

/** Compares what trainers publish with what samplers take. @returns `null` when they are of one format. Pure. */
export function formatDifference(trainer: WeightFormat, sampler: WeightFormat): FormatDifference | null {
  for (const what of ["modelId", "vocab", "tokenizer"] as const) {
    if (trainer[what] !== sampler[what])
      return { what: names[what], trainer: String(trainer[what]), sampler: String(sampler[what]) };
  }
  return tensorDifference(trainer.tensors, sampler.tensors);
}

/**
 * What makes published tensors into those that a sampler takes. Pure.
 *
 * @returns `null` when they are those already; the first difference when nothing converts them.
 */
export function conversionOf(
  published: readonly PlacedTensor[],
  { tensors, conversion }: Pick<EngineDescription, "tensors" | "conversion">,
): SectionConversion | FormatDifference | null {
  const difference = tensorDifference(published, tensors);
  if (!difference) return null;
  try {
    const found = SectionConversion.between(published, tensors, conversion);
    if (found instanceof SectionConversion) return found;
    return { what: found.what, trainer: found.given, sampler: found.wanted };
  } catch (error) {
    // A rule that does not fit the trainers' table: both sentences are needed to mend it.
    return { ...difference, sampler: `${difference.sampler} (${messageOf(error)})` };
  }
}

/** Compares two tables. @returns The first row in which they differ; `null` when they are equal. Pure. */
export function tensorDifference(
  trainer: readonly PlacedTensor[],
  sampler: readonly PlacedTensor[],
): FormatDifference | null {
  const rows = Math.max(trainer.length, sampler.length);
  for (let row = 0; row < rows; row++) {
    const [ours, theirs] = [rowText(trainer[row]), rowText(sampler[row])];
    if (ours !== theirs) return { what: `row ${row + 1} of the tensor table`, trainer: ours, sampler: theirs };
  }
  return null;
}

const names = { modelId: "the model id", vocab: "the vocabulary size", tokenizer: "the tokenizer's digest" } as const;

function rowText(tensor: PlacedTensor | undefined): string {
  if (!tensor) return "no such row";
  const { name, dtype, shape, offsetBytes } = tensor;
  return `${name} ${dtype}[${shape.join(", ")}] at byte ${offsetBytes}`;
}
