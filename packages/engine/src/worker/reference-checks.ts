/** Checks of reference workers: log-probabilities, and those of fixed weights. */
import type { ModelNeeds } from "@muster/data";
import { mustEqual, mustHold } from "../compliance/check.ts";
import type { ReadyCheck } from "../compliance/index.ts";
import type { WorkerSelf } from "./description.ts";
import { type OpenWorker, openScorer } from "./open-link.ts";
import type { WorkerOptions } from "./options.ts";
import { type ReferenceItem, referredLogprobs } from "./reference-policy.ts";
import { checksWith, withWorker } from "./with-worker.ts";

/** What a reference worker is tried with. */
interface ReferenceSubject {
  readonly options: WorkerOptions;
  readonly needs: ModelNeeds;
  readonly description: WorkerSelf;
}

const never = new AbortController().signal;
/** How far above 1 rounding may take probabilities of float32 together. */
const sumWithin = 1e-3;
/** Largest vocabulary that is summed over. */
const summedMax = 4_096;

/** For workers with the role `reference`. */
export function referenceChecks({ options, needs, description }: ReferenceSubject): readonly ReadyCheck[] {
  const open = () => openScorer("reference", options, needs);
  const check = checksWith("refers", open);
  const ask = async (worker: OpenWorker<WorkerSelf>, items: readonly ReferenceItem[]): Promise<readonly number[][]> =>
    (await referredLogprobs(worker, items, never)).map((row) => [...row]);
  const items = sequencesOf(needs);
  return [
    check("gives each response token a log-probability, at each temperature", async (worker) => {
      for (const temperature of [1, 0.5]) {
        const rows = await ask(
          worker,
          items.map((item) => ({ ...item, temperature })),
        );
        mustEqual(rows.length, items.length, "rows");
      }
    }),
    // Of a model whose vocabulary is larger than the task's, the task's tokens are a part.
    ...(needs.vocab > summedMax
      ? []
      : [
          check("the probabilities of all tokens that may come next are not more than 1 together", async (worker) => {
            for (const temperature of [1, 0.5]) {
              const next = Array.from({ length: needs.vocab }, (_, token) => ({
                ...{ tokens: Int32Array.of(1, 2, token), promptLength: 2, temperature },
              }));
              let sum = 0;
              for (let from = 0; from < next.length; from += 64)
                for (const [logprob = 0] of await ask(worker, next.slice(from, from + 64))) sum += Math.exp(logprob);
              mustHold(sum <= 1 + sumWithin, `they are ${sum} together at temperature ${temperature}`);
            }
          }),
        ]),
    ...(description.deterministic
      ? [
          check(
            "equal sequences have equal log-probabilities, alone, together, in another order and life",
            async (worker) => {
              const together = await ask(worker, items);
              mustEqual([...(await ask(worker, [...items].reverse()))].reverse(), together, "another order");
              for (const [i, item] of items.entries())
                mustEqual(await ask(worker, [item]), [together[i]], `sequence ${i} alone`);
              mustEqual(
                await withWorker(open, (other) => ask(other, items)),
                together,
                "log-probabilities of a second life",
              );
            },
          ),
        ]
      : []),
  ];
}

/** Sequences of several lengths, the longest as long as can be. */
function sequencesOf({ vocab, maxContext }: ModelNeeds): readonly ReferenceItem[] {
  return [3, Math.ceil(maxContext / 2), maxContext].map((length, row) => ({
    tokens: Int32Array.from({ length }, (_, i) => (7 * row + 3 * i) % vocab),
    ...{ promptLength: Math.min(2 + row, length - 1), temperature: 1 },
  }));
}
