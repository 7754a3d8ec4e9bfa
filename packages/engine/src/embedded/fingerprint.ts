/** What the embedded engine computes on this machine, as one digest: its arithmetic is the same everywhere, unless the machine computes wrong. */
import { createHash } from "node:crypto";
import { gradientIn } from "../gradient-memory.ts";
import { createEmbeddedPolicyEngine } from "./policy-engine.ts";

const model = {
  ...{ vocab: 31, hidden: 16, layers: 2, heads: 2, kvHeads: 2, ffn: 32, tied: true, maxContext: 12 },
} as const;

let found: Promise<string> | null = null;

/** The digest of one step of a tiny model, 16 hexadecimal digits; computed once per process, in a few milliseconds. */
export async function embeddedFingerprint(): Promise<string> {
  found ??= compute();
  return await found;
}

async function compute(): Promise<string> {
  const engine = createEmbeddedPolicyEngine({ model });
  await engine.initialize({ kind: "seed", seed: 20 });
  engine.begin();
  const samples = [1.25, -0.75].map((advantage, i) => ({
    tokens: Int32Array.from({ length: 10 - i }, (_, t) => (7 * t + 11 * i) % model.vocab),
    promptLength: 3,
    logprobs: new Float32Array(7 - i).fill(-3),
    advantage,
  }));
  const out = new Float32Array(engine.info().gradientElements);
  const bounds = { normalizer: 13, clipLow: 0.2, clipHigh: 0.28, temperature: 0.9 };
  await engine.accumulate(samples, { ...bounds, out: gradientIn(out), signal: new AbortController().signal });
  const adam = { lr: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1 };
  await engine.stage(gradientIn(out), adam);
  const { weights, optimizer } = engine.candidate();
  const digest = createHash("sha256").update(weights).update(optimizer).digest("hex");
  await engine.close();
  return digest.slice(0, 16);
}
