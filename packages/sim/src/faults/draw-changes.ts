/** What the operator changes of the batch and of the number of steps while the job runs. */
import { type Random, randomOf } from "@muster/base";
import type { Body, JobConfig } from "@muster/protocol";
import type { Fault } from "./fault.ts";

/** In so many seeds. */
const share = 0.25;

/** Draws one to three changes, in some seeds of steps that are not there, of batches that do not fit or of steps that are over: those are to be refused. Pure. */
export function drawChanges(
  seed: number,
  { config, safetyMs }: { readonly config: JobConfig; readonly safetyMs: number },
): readonly Fault[] {
  const random = randomOf(seed, 211);
  if (random.next() >= share) return [];
  return Array.from({ length: 1 + random.below(3) }, (_, i) => {
    const atMs = Math.round(random.next() * random.next() * safetyMs);
    const body = { settings: drawSettings(random, config), ...drawFromStep(random, config) };
    const againMs = random.next() < 0.3 ? [Math.round(4_000 * random.next())] : [];
    return { kind: "command", atMs, id: `change-${i}`, command: { kind: "job.change", body }, againMs };
  });
}

function drawSettings(random: Random, { batch, steps }: JobConfig): Body<"job.change">["settings"] {
  const groupsPerStep = 1 + random.below(2 * batch.groupsPerStep);
  switch (random.below(4)) {
    case 0:
      return { steps: Math.max(1, steps - 3 + random.below(7)) };
    case 1:
      return { groupsPerStep, minibatches: 1 + random.below(2) };
    case 2:
      return { groupsPerStep, steps: steps + random.below(3) };
    default:
      return { groupsPerStep };
  }
}

function drawFromStep(random: Random, { steps }: JobConfig): Pick<Body<"job.change">, "fromStep"> {
  return random.next() < 0.4 ? { fromStep: 1 + random.below(steps + 1) } : {};
}
