/** A commit as a line of `metrics.jsonl` has it. Pure. */
import { type Body, figureNameOf, stepFigures } from "@muster/protocol";
import type { StepRecord } from "../report/index.ts";

/** The record of a step that was committed at `atMs`, without what follows from the step before. */
export function stepRecordOf(body: Body<"step.committed">, atMs: number): Omit<StepRecord, "tokens_per_s"> {
  const { step, lineage, version, held } = body;
  const figures = stepFigures.map(({ field }) => [figureNameOf(field), body[field] ?? null]);
  return {
    ...{ step, lineage, version },
    ...(Object.fromEntries(figures) as Omit<
      StepRecord,
      "step" | "lineage" | "version" | "components" | "tokens_per_s"
    >),
    components: body.components
      ? Object.fromEntries(body.components.map(({ name, ...component }) => [name, component]))
      : null,
    at_ms: atMs,
    held: held ? Object.fromEntries(held.map(({ id, version: own }) => [id, own])) : null,
  };
}

/** A step with its speed since the one before it by the clock of the job. */
export function withSpeed(step: Omit<StepRecord, "tokens_per_s">, beforeMs: number): StepRecord {
  return { ...step, tokens_per_s: (step.tokens / Math.max(1, step.at_ms - beforeMs)) * 1000 };
}
