/** The losses of the trainer in PyTorch, in double precision, beside those of the embedded engine, which equal the formulas of the papers. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { randomOf } from "@muster/base";
import { algorithmNames, klEstimators, type Training, trainingDefaults } from "@muster/protocol";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { lossOf, responseLoss } from "../src/index.ts";
import { noTorch, torchPython } from "./torch-fixture.ts";
import { pathOf } from "./worker-fixture.ts";

vi.setConfig({ testTimeout: 60_000 });
beforeEach((context) => context.skip(torchPython === undefined, noTorch));

const seed = 21;
const random = randomOf(seed);
const between = (low: number, high: number): number => low + ((high - low) * random.below(1e6)) / 1e6;
/** What of each padded row is a response; one has masked tokens in its middle. */
const masks = [
  [1, 1, 1, 1, 1, 1],
  [1, 1, 0, 0, 1, 0],
  [1, 0, 0, 0, 0, 0],
  [1, 1, 1, 1, 0, 0],
];
const table = (of: (row: number, t: number) => number): number[][] =>
  masks.map((mask, row) => mask.map((_, t) => of(row, t)));

/** Rows of responses whose weights have moved since they were drawn, some of them far beyond every bound. */
function rowsOf(isFar: boolean) {
  const far = isFar ? [0, 200, -200, 900] : [0, 0, 0, 0];
  const sampled = table(() => between(-3, -0.1));
  const near = (of: number[][], by: number) => table((row, t) => of[row]![t]! + between(-by, by));
  const before = near(sampled, 0.7);
  const logprobs = table((row, t) => before[row]![t]! + between(-0.6, 0.6) + (t === 0 ? far[row]! : 0));
  return {
    ...{ sampled, before, logprobs, reference: near(sampled, 0.8), entropy: table(() => between(0, 2)), mask: masks },
    advantages: table((row) => [1.5, -0.8, -1.2, 0.6][row]!),
    weights: masks.map((mask) => [1 / mask.filter((bit) => bit === 1).length]),
  };
}

interface Case extends ReturnType<typeof rowsOf> {
  readonly name: string;
  readonly training: Training;
  readonly clipLow: number;
  readonly clipHigh: number;
}

const caseOf = (name: string, training: Partial<Training>, rows = rowsOf(false)): Case => ({
  ...{ name, ...rows, training: { ...trainingDefaults, ...training }, clipLow: 0.2, clipHigh: 0.28 },
});

const cases: readonly Case[] = [
  ...algorithmNames.map((algorithm) => caseOf(algorithm, { algorithm })),
  // Of the surrogates: where the bound holds, a ratio of e²⁰⁰ has no gradient, and none that is no number.
  ...(["grpo", "cispo", "rloo"] as const).map((algorithm) => caseOf(`${algorithm}, far`, { algorithm }, clippedFar())),
  ...(["grpo", "gspo"] as const).map((algorithm) =>
    caseOf(`${algorithm}, nothing to learn`, { algorithm }, uselessFar()),
  ),
  ...klEstimators.map((klEstimator) => caseOf(klEstimator, { klCoefficient: 0.3, klEstimator, klIn: "loss" })),
  ...algorithmNames.flatMap((algorithm) =>
    (["truncate", "mask"] as const).map((staleCorrection) => {
      const name = `${algorithm}, ${staleCorrection}, entropy and k3`;
      const added = { entropyCoefficient: 0.1, klCoefficient: 0.2, klEstimator: "k3", klIn: "loss" } as const;
      return caseOf(name, { algorithm, staleCorrection, staleCap: 1.3, ...added });
    }),
  ),
  caseOf(
    "advantages of tokens",
    { algorithm: "reinforce++" },
    { ...rowsOf(false), advantages: table(() => between(-2, 2)) },
  ),
];

/** Far on the side where the clip holds: up where the advantage is above 0, down where it is below. */
function clippedFar() {
  const rows = rowsOf(true);
  return { ...rows, advantages: table((row) => [0.5, 1.5, -0.8, 1.1][row]!) };
}

/** The one whose ratio is beyond every number has no advantage. */
function uselessFar() {
  const rows = clippedFar();
  return { ...rows, advantages: table((row) => [0.5, 1.5, -0.8, 0][row]!) };
}

/** That of the embedded engine is held there, too. */
const exp = (x: number): number => Math.exp(Math.min(x, 700));

/** What the embedded engine makes of a case. */
function ours({ training, mask, logprobs, sampled, before, reference, entropy, advantages, weights, ...clip }: Case) {
  const none = () => table(() => 0);
  const [values, byLogprob, byEntropy] = [none(), none(), none()];
  const clipped = mask.map((row) => row.map(() => false));
  mask.forEach((bits, row) => {
    const response = {
      ...{ logprobs: logprobs[row]!, sampled: sampled[row]!, reference: reference[row]!, entropies: entropy[row]! },
      ...{ before: training.staleCorrection === "off" ? undefined : before[row]!, mask: bits, exp },
      ...{
        advantage: advantages[row]![0]!,
        advantages: advantages[row]!,
        weight: weights[row]![0]!,
        normalizer: 1,
        clip,
      },
    };
    responseLoss(response, lossOf(training), (t, token) => {
      values[row]![t] = token.value;
      clipped[row]![t] = token.clipped;
      byLogprob[row]![t] = token.byLogprob;
      byEntropy[row]![t] = token.byEntropy;
    });
  });
  return { values, byLogprob, byEntropy, clipped };
}

/** What Python is told: its own names, and `before` only where the loss looks at it. */
function toldOf({ training, ...rest }: Case) {
  const { klCoefficient, klEstimator, entropyCoefficient, staleCorrection, staleCap, algorithm } = lossOf(training);
  const loss = {
    ...{ algorithm, kl_coefficient: klCoefficient, kl_estimator: klEstimator, stale_cap: staleCap },
    ...{ entropy_coefficient: entropyCoefficient, stale_correction: staleCorrection },
  };
  return { ...rest, loss, before: staleCorrection === "off" ? rest.sampled : rest.before };
}

describe("the losses of the trainer in PyTorch", () => {
  it(`equal those of the embedded engine to 1e-6, value, derivatives and what is clipped (seed ${seed})`, () => {
    const done = spawnSync(String(torchPython), [fileURLToPath(new URL("losses.py", import.meta.url))], {
      input: JSON.stringify(cases.map(toldOf)),
      env: { ...process.env, PYTHONPATH: pathOf("python"), PYTHONDONTWRITEBYTECODE: "1" },
      encoding: "utf8",
    });
    expect(done.stderr).toBe("");
    const theirs = JSON.parse(done.stdout) as ReturnType<typeof ours>[];
    expect(theirs.length).toBe(cases.length);
    cases.forEach((one, i) => {
      const [wanted, found] = [ours(one), theirs[i]!];
      expect(found.clipped, one.name).toEqual(wanted.clipped);
      for (const what of ["values", "byLogprob", "byEntropy"] as const) {
        const apart = found[what].flat().map((value, k) => {
          const other = wanted[what].flat()[k]!;
          return Math.abs(value - other) / Math.max(1, Math.abs(other));
        });
        expect(Math.max(...apart), `${what} of ${one.name}`).toBeLessThan(1e-6);
      }
      expect(
        wanted.byLogprob.flat().some((slope) => Math.abs(slope) > 1e-3),
        one.name,
      ).toBe(true);
    });
  });
});
