/**
 * An engine in one file, to copy from. Its model has one weight for each token: how much it likes to say that token again. A response repeats the
 * prompt, token by token, and ends where the model does not want to go on. "Write your own engine" in the documentation goes through it.
 */

export const engine = ({ z }) => ({
  kind: "echo",
  roles: ["policy", "rollout"],
  schema: z.strictObject({
    eagerness: z.number().min(-8).max(8).default(2).describe("Weight of every token before training."),
  }),
  build: () => "echo-1",
  describe: (_options, { vocab, maxContext, tokenizer }) => ({
    modelId: `echo-v${vocab}`,
    vocab,
    maxContext,
    tokenizer,
    tensors: [{ name: "echo.weight", dtype: "f32", shape: [vocab], offsetBytes: 0, sizeBytes: 4 * vocab }],
    modelConfig: { model_type: "echo", vocab_size: vocab },
    deterministic: true,
    transports: ["inline"],
    logprobs: "sampled-dist",
  }),
  check: () => [],
  doctor: async () => [{ state: "ok", name: "echo", detail: "needs nothing", fix: null }],
  openPolicy: async (options, { needs }) => trainer(options, needs),
  openRollout: async (_options, { needs }) => sampler(needs),
});

const infoOf = ({ vocab, maxContext }) => ({
  kind: "echo",
  build: "echo-1",
  modelId: `echo-v${vocab}`,
  vocab,
  maxContext,
  ranks: 1,
  logprobs: "sampled-dist",
});

const bytesOf = (floats) => new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);

/** Probability that a token is said again. */
const chanceOf = (weight, temperature) => 1 / (1 + Math.exp(-weight / temperature));

/** A number in [0, 1) that belongs to a seed, a response and a position, whoever draws it. */
function draw(seed, response, position) {
  let hash = 0x9e3779b9;
  for (const part of [seed, Math.floor(seed / 2 ** 32), response, position]) {
    hash = Math.imul(hash ^ part, 0x85ebca6b);
    hash ^= hash >>> 13;
    hash = Math.imul(hash, 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return (hash >>> 0) / 2 ** 32;
}

/** One response: `weightOf` says how much the model likes to say a token again, and `version` of which weights that is. */
export function respond({ promptIds, sampling, seed, from = 0 }, index, { weightOf, maxContext, version }) {
  const { temperature, maxNewTokens, stopTokenIds } = sampling;
  const room = Math.min(maxNewTokens, maxContext - promptIds.length);
  const [stop] = stopTokenIds;
  const responseIds = [];
  const logprobs = [];
  let finish = "length";
  while (finish === "length" && responseIds.length < room) {
    const said = promptIds[responseIds.length];
    const chance = said === undefined ? 0 : chanceOf(weightOf(said), Math.max(temperature, 1e-3));
    const goesOn = temperature === 0 ? chance >= 0.5 : draw(seed, from + index, responseIds.length) < chance;
    if (!goesOn && stop === undefined) break;
    responseIds.push(goesOn ? said : stop);
    logprobs.push(Math.log(goesOn ? chance : 1 - chance));
    if (!goesOn || said === stop) finish = "stop";
  }
  return {
    responseIds: Int32Array.from(responseIds),
    logprobs: Float32Array.from(logprobs),
    finish,
    versionAtStart: version,
    versionAtEnd: version,
  };
}

function sampler(needs) {
  let weights = new Float32Array(needs.vocab);
  let version = null;
  const now = () => ({ weightOf: (token) => weights[token], maxContext: needs.maxContext, version });
  return {
    info: () => infoOf(needs),
    health: async () => ({ ok: version !== null, state: version === null ? "starting" : "up" }),
    async generate(requests, signal) {
      signal.throwIfAborted();
      return requests.map((request) => Array.from({ length: request.n }, (_, index) => respond(request, index, now())));
    },
    async updateWeights(update) {
      if (update.via !== "inline") throw new Error(`echo takes its weights inline, not by ${update.via}`);
      if (update.version === version) return;
      if (update.bytes !== weights.byteLength)
        throw new Error(`${update.bytes} bytes of weights are not those of echo`);
      const arriving = new Float32Array(needs.vocab);
      await update.copyTo(bytesOf(arriving));
      weights = arriving;
      version = update.version;
    },
    weightVersion: () => version,
    // A call of `generate` is over before anything else runs in this process, so there is nothing to end or to hold.
    abort: async () => {},
    pause: async () => {},
    resume: async () => {},
    close: async () => {},
  };
}

/** Gradient and figures of what was asked of some tokens: those from `start` on whose weights these are. */
export function learn(samples, { normalizer, clipLow, clipHigh, temperature }, weights, start = 0) {
  const gradient = new Float32Array(weights.length);
  const stats = { tokens: 0, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0 };
  for (const { tokens, promptLength, logprobs, advantage, lossMask } of samples) {
    for (let i = 0; i < logprobs.length; i++) {
      const own = tokens[i] - start;
      if (lossMask?.[i] === 0 || own < 0 || own >= weights.length) continue;
      const isEcho = i < promptLength && tokens[promptLength + i] === tokens[i];
      const chance = i < promptLength ? chanceOf(weights[own], temperature) : 0;
      const logRatio = Math.log(isEcho ? chance : 1 - chance) - logprobs[i];
      const ratio = Math.exp(logRatio);
      const isClipped = advantage > 0 ? ratio > 1 + clipHigh : ratio < 1 - clipLow;
      stats.tokens += 1;
      stats.clipped += isClipped ? 1 : 0;
      stats.klSum += ratio - 1 - logRatio;
      stats.lossSum -= Math.min(ratio * advantage, Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh) * advantage);
      if (!isClipped && i < promptLength)
        gradient[own] -= (advantage * ratio * (isEcho ? 1 - chance : -chance)) / (temperature * normalizer);
    }
  }
  return { gradient, stats };
}

/** One step against a gradient, with momentum. */
export function update({ weights, optimizer }, gradient, { lr, beta1, scale }) {
  for (let i = 0; i < weights.length; i++) {
    optimizer[i] = beta1 * optimizer[i] + scale * gradient[i];
    weights[i] -= lr * optimizer[i];
  }
}

function trainer({ eagerness }, needs) {
  const { vocab } = needs;
  const info = {
    ...infoOf(needs),
    tensors: [{ name: "echo.weight", dtype: "f32", shape: [vocab], offsetBytes: 0, sizeBytes: 4 * vocab }],
    weightsBytes: 4 * vocab,
    optimizerBytes: 4 * vocab,
    gradientElements: vocab,
  };
  let live = { weights: new Float32Array(vocab), optimizer: new Float32Array(vocab) };
  let candidate = null;
  const sectionsOf = ({ weights, optimizer }) => ({ weights: bytesOf(weights), optimizer: bytesOf(optimizer) });
  const need = () => {
    if (!candidate) throw new Error("begin comes first");
    return candidate;
  };
  return {
    info: () => info,
    async initialize(source) {
      if (source.kind !== "seed") throw new Error('echo begins from a seed; set weights.source = "seed"');
      live = { weights: new Float32Array(vocab).fill(eagerness), optimizer: new Float32Array(vocab) };
      candidate = null;
    },
    state: () => sectionsOf(live),
    async restore({ weights, optimizer }) {
      if (weights.bytes !== info.weightsBytes || optimizer.bytes !== info.optimizerBytes)
        throw new Error(`${weights.bytes} and ${optimizer.bytes} bytes are not a state of echo`);
      const arriving = { weights: new Float32Array(vocab), optimizer: new Float32Array(vocab) };
      await weights.copyTo(bytesOf(arriving.weights));
      await optimizer.copyTo(bytesOf(arriving.optimizer));
      live = arriving;
      candidate = null;
    },
    begin() {
      candidate = { weights: live.weights.slice(), optimizer: live.optimizer.slice() };
    },
    async accumulate(samples, options) {
      options.signal.throwIfAborted();
      const { gradient, stats } = learn(samples, options, need().weights);
      // The memory of a gradient may be larger than one array: it comes as windows, which are views.
      for (const { from, values } of options.out.windows()) values.set(gradient.subarray(from, from + values.length));
      return stats;
    },
    async stage(summed, { lr, beta1, clipNorm }) {
      const { weights, optimizer } = need();
      const gradient = new Float32Array(vocab);
      for (const { from, values } of summed.windows()) gradient.set(values, from);
      const gradNorm = Math.sqrt(gradient.reduce((sum, value) => sum + value * value, 0));
      if (!Number.isFinite(gradNorm)) return { gradNorm: 0, finite: false };
      const scale = clipNorm > 0 && gradNorm > clipNorm ? clipNorm / gradNorm : 1;
      update({ weights, optimizer }, gradient, { lr, beta1, scale });
      return { gradNorm, finite: true };
    },
    candidate: () => sectionsOf(need()),
    promote() {
      live = need();
      candidate = null;
    },
    discard() {
      candidate = null;
    },
    close: async () => {},
  };
}
