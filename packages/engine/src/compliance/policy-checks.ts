/** Checks of trainers: what is live, what is a candidate, and that equal input gives equal bits. */
import { trainingDefaults } from "@muster/protocol";
import { lossOf } from "../algorithms/loss-needs.ts";
import type {
  AccumulateOptions,
  LossFeature,
  LossOptions,
  OptimizerOptions,
  PolicyEngine,
  TrainSample,
} from "../engine.ts";
import { gradientIn } from "../gradient-memory.ts";
import { inlineState } from "../inline-weights.ts";
import { bytesIn, copyOf } from "../section-bytes.ts";
import { type EngineCheck, mustEqual, mustHold, mustRefuse } from "./check.ts";

const seed = { kind: "seed", seed: 7 } as const;
const optimizer: OptimizerOptions = {
  lr: 0.01,
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0,
  clipNorm: 1,
};

/** Two responses, one better than the other. */
const samples: readonly TrainSample[] = [1, -1].map((advantage) => ({
  tokens: Int32Array.of(1, 2, 3, 1, 2, 0),
  promptLength: 3,
  logprobs: Float32Array.of(-0.5, -0.7, -0.9),
  advantage: advantage * 0.5 + 0.25,
}));

const accumulating = (out: Float32Array, windowMax?: number): AccumulateOptions => ({
  ...{ normalizer: 6, clipLow: 0.9, clipHigh: 9, temperature: 1, out: gradientIn(out, windowMax) },
  signal: new AbortController().signal,
});

/** The bytes of a state as text. */
const textOf = ({ weights, optimizer: moments }: ReturnType<PolicyEngine["state"]>) => ({
  weights: Buffer.from(copyOf(weights)).toString("base64"),
  optimizer: Buffer.from(copyOf(moments)).toString("base64"),
});

/** A candidate that one gradient made, which is seen through windows of `windowMax` elements. */
async function stepped(engine: PolicyEngine, windowMax?: number): Promise<void> {
  engine.begin();
  const gradient = new Float32Array(engine.info().gradientElements);
  await engine.accumulate(samples, accumulating(gradient, windowMax));
  await engine.stage(gradientIn(gradient, windowMax), optimizer);
}

/** A loss that asks for one thing of an engine. */
function lossWith(feature: LossFeature): LossOptions {
  const plain = lossOf(trainingDefaults);
  if (feature === "gspo" || feature === "cispo" || feature === "rloo" || feature === "sft")
    return { ...plain, algorithm: feature };
  if (feature === "entropy") return { ...plain, entropyCoefficient: 0.1 };
  return feature === "stale" ? { ...plain, staleCorrection: "truncate", staleCap: 2 } : plain;
}

/** For adapters with the role `policy`. */
export const policyChecks: readonly EngineCheck[] = [
  {
    says: "trains: opens as what it said, with sections of the sizes that it says",
    run: async ({ policy, described }) => {
      const engine = await policy();
      await engine.initialize(seed);
      const { weightsBytes, optimizerBytes, tensors } = engine.info();
      const { weights, optimizer: moments } = engine.state();
      mustEqual([bytesIn(weights), bytesIn(moments)], [weightsBytes, optimizerBytes], "bytes of the state");
      mustEqual(tensors, described.tensors, "the tensors");
      const last = tensors.at(-1);
      mustEqual((last?.offsetBytes ?? 0) + (last?.sizeBytes ?? 0), weightsBytes, "where the last tensor ends");
    },
  },
  {
    says: "trains: equal input gives equal bits, of the state and of the candidate",
    run: async ({ policy }) => {
      const [one, other] = [await policy(), await policy()];
      for (const engine of [one, other]) {
        await engine.initialize(seed);
        await stepped(engine);
      }
      mustEqual(textOf(one.candidate()), textOf(other.candidate()), "the candidate of a second engine");
    },
  },
  {
    says: "trains: a gradient that is seen through windows gives the bits of one that is seen whole",
    run: async ({ policy }) => {
      const [whole, windowed] = [await policy(), await policy()];
      for (const engine of [whole, windowed]) await engine.initialize(seed);
      await stepped(whole);
      await stepped(windowed, Math.max(1, Math.floor(windowed.info().gradientElements / 3) - 1));
      mustEqual(textOf(windowed.candidate()), textOf(whole.candidate()), "the candidate of a gradient in windows");
    },
  },
  {
    says: "trains: a candidate is live after promote, and forgotten after discard; before, live is what it was",
    run: async ({ policy }) => {
      const engine = await policy();
      await engine.initialize(seed);
      const before = textOf(engine.state());
      await stepped(engine);
      mustEqual(textOf(engine.state()), before, "the live state beside a candidate");
      engine.discard();
      engine.discard();
      mustEqual(textOf(engine.state()), before, "the live state after discard");
      await stepped(engine);
      const candidate = textOf(engine.candidate());
      mustHold(candidate.weights !== before.weights, "a gradient changed no weight");
      engine.promote();
      mustEqual(textOf(engine.state()), candidate, "the live state after promote");
    },
  },
  {
    says: "trains: a state that is restored elsewhere goes on with the same bits",
    run: async ({ policy }) => {
      const [one, other] = [await policy(), await policy()];
      await one.initialize(seed);
      await stepped(one);
      one.promote();
      const { weights, optimizer: moments } = one.state();
      await other.restore(inlineState({ weights: copyOf(weights), optimizer: copyOf(moments) }));
      for (const engine of [one, other]) await stepped(engine);
      mustEqual(textOf(other.candidate()), textOf(one.candidate()), "the candidate after a restore");
    },
  },
  {
    says: "trains: a state of another size is refused, and the live state stays",
    run: async ({ policy }) => {
      const engine = await policy();
      await engine.initialize(seed);
      const before = textOf(engine.state());
      const wrong = { weights: new Uint8Array(4), optimizer: new Uint8Array(4) };
      await mustRefuse(() => engine.restore(inlineState(wrong)), "a state of 4 bytes");
      mustEqual(textOf(engine.state()), before, "the live state after a refused one");
    },
  },
  {
    says: "trains: knows each loss that it names, counts its tokens, and has a gradient other than the clipped surrogate's",
    run: async ({ policy, described }) => {
      const engine = await policy();
      await engine.initialize(seed);
      engine.begin();
      const gradientOf = async (given: readonly TrainSample[], loss?: LossOptions): Promise<Buffer> => {
        const out = new Float32Array(engine.info().gradientElements);
        const stats = await engine.accumulate(given, {
          ...accumulating(out),
          clipHigh: 0.1,
          ...(loss ? { loss } : {}),
        });
        mustEqual(stats.tokens, 6, `tokens of the loss ${JSON.stringify(loss)}`);
        mustHold(Number.isFinite(stats.lossSum), `lossSum of ${JSON.stringify(loss)} is ${stats.lossSum}`);
        return Buffer.from(out.buffer);
      };
      const plain = await gradientOf(samples);
      // A divergence has a reference policy, which a job names.
      for (const feature of (described.losses ?? []).filter((loss) => loss !== "reference")) {
        const given = samples.map((sample) => ({
          ...sample,
          ...(feature === "sample-weights" ? { weight: 0.5 } : {}),
          ...(feature === "token-advantages" ? { advantages: Float32Array.of(0.1, -0.5, 2) } : {}),
        }));
        const found = await gradientOf(given, lossWith(feature));
        mustHold(!found.equals(plain), `the loss ${feature} has the gradient of the clipped surrogate`);
      }
    },
  },
  {
    says: "trains: gradients overwrite what was there, and one that is not finite leaves the candidate",
    run: async ({ policy }) => {
      const engine = await policy();
      await engine.initialize(seed);
      engine.begin();
      const elements = engine.info().gradientElements;
      const [clean, dirty] = [new Float32Array(elements), new Float32Array(elements).fill(3)];
      for (const out of [clean, dirty]) await engine.accumulate(samples, accumulating(out));
      mustEqual(Buffer.from(dirty.buffer), Buffer.from(clean.buffer), "a gradient into used memory");
      const before = textOf(engine.candidate());
      const { finite } = await engine.stage(gradientIn(new Float32Array(elements).fill(Number.NaN)), optimizer);
      mustEqual(finite, false, "finite of a gradient that is not");
      mustEqual(textOf(engine.candidate()), before, "the candidate after a gradient that is not finite");
    },
  },
];
