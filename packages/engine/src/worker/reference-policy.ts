/** A reference policy that is a worker: log-probabilities for engines that have none of their own. */
import type { ModelNeeds } from "@muster/data";
import type { ScorerConfig } from "@muster/protocol";
import type { PolicyEngine, TrainSample } from "../engine.ts";
import type { WorkerSelf } from "./description.ts";
import { joined } from "./joined.ts";
import { referredSchema } from "./messages.ts";
import type { OpenWorker } from "./open-link.ts";
import { scorerOptionsOf } from "./options.ts";
import { Scorer } from "./scorer.ts";

/** A sequence whose response is looked at. */
export interface ReferenceItem extends Pick<TrainSample, "tokens" | "promptLength"> {
  /** > 0; the same for all that are asked together. */
  readonly temperature: number;
}

/** Of the two numbers of a sequence, and what aligning three arrays may cost. */
const overheadBytes = 2 * 4 + 3 * 8;
/** How far above 0 rounding may take a log-probability. */
const roundingMax = 1e-3;

/**
 * Gives a trainer the reference policy of a worker, which it ends when it is closed.
 *
 * @param env - Environment that the worker inherits, but for what is meant for Muster itself.
 * @throws MUSTER_ERR_WORKER_COMMAND, and as a worker that does not begin
 */
export async function withReference(
  engine: PolicyEngine,
  config: ScorerConfig,
  needs: ModelNeeds,
  env: Readonly<Record<string, string | undefined>>,
): Promise<PolicyEngine> {
  const scorer = await Scorer.open<ReferenceItem, Float32Array>({
    ...{ role: "reference", worker: scorerOptionsOf(config, env), needs, batch: config.batch },
    bytesOf: ({ tokens }) => overheadBytes + tokens.byteLength,
    ask: referredLogprobs,
  });
  const close = engine.close.bind(engine);
  return Object.assign(engine, {
    referenceLogprobs: async (samples, { temperature, signal, onPart = () => {} }) => {
      const stop = scorer.onStarting(() => onPart());
      const logprobsOf = async ({ tokens, promptLength }: TrainSample): Promise<Float32Array> => {
        const logprobs = await scorer.score({ tokens, promptLength, temperature }, signal);
        onPart();
        return logprobs;
      };
      return await Promise.all(samples.map(logprobsOf)).finally(stop);
    },
    close: async () => {
      await scorer.close();
      await close();
    },
  } satisfies Pick<PolicyEngine, "referenceLogprobs" | "close">);
}

/** Asks for the log-probabilities of the response tokens of each sequence. @throws MUSTER_ERR_WORKER_PROTOCOL for what can be none */
export async function referredLogprobs(
  { link, regions }: OpenWorker<WorkerSelf>,
  items: readonly ReferenceItem[],
  signal: AbortSignal,
): Promise<readonly Float32Array[]> {
  const lengths = Int32Array.from(items, ({ tokens }) => tokens.length);
  const promptLengths = Int32Array.from(items, ({ promptLength }) => promptLength);
  const tokens = joined(
    items.map((item) => item.tokens),
    Int32Array,
  );
  const arrays = await regions.writeArrays("inputs", { lengths, promptLengths, tokens });
  const { temperature = 1 } = items[0] ?? {};
  const params = { sequences: items.length, temperature, arrays };
  const answer = await link.ask("logprobs", params, referredSchema, { signal });
  const length = items.reduce((sum, item) => sum + item.tokens.length - item.promptLength, 0);
  const wanted = { dtype: "f32", what: "logprobs", length } as const;
  const all = await regions.readArray("outputs", answer.arrays.logprobs, wanted).catch((cause: Error) => {
    throw link.condemn(cause.message);
  });
  const wild = all.findIndex((logprob) => !(Number.isFinite(logprob) && logprob <= roundingMax));
  if (wild >= 0)
    throw link.condemn(`log-probability ${wild} of its answer is ${all[wild]}, and must be finite and at most 0`);
  let at = 0;
  return items.map((item) => {
    const from = at;
    at += item.tokens.length - item.promptLength;
    return all.slice(from, at);
  });
}
