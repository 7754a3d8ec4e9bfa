/**
 * The echo engine as a trainer of several processes: each has its rows of the weights and the optimizer, and no process has all of them. A token's gradient
 * follows from its own weight, so a rank computes that of its rows alone; the norm of the whole is what the ranks tell each other. What Muster wants of the
 * ranks (`performAll`) rank 0 hands to them as it is.
 */
import { learn, update } from "../echo-engine/echo.mjs";
import { meetAll } from "./meet.mjs";

const bytesOf = (floats) => new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
const sectionsOf = ({ weights, optimizer }) => ({ weights: bytesOf(weights), optimizer: bytesOf(optimizer) });

/** The shard of one rank, and what it does when rank 0 asks. */
export function shardOf(training, { eagerness }) {
  const [{ rows }] = training.tensors;
  const { start, length } = rows;
  const fresh = (weight) => ({ weights: new Float32Array(length).fill(weight), optimizer: new Float32Array(length) });
  let live = fresh(0);
  let candidate = null;
  let summed = null;
  const need = () => {
    if (!candidate) throw new Error("begin comes first");
    return candidate;
  };
  training.attach({
    optimizerBytes: 4 * length,
    gradientElements: length,
    state: () => sectionsOf(live),
    candidate: () => sectionsOf(need()),
    async restore({ weights, optimizer }) {
      const arriving = fresh(0);
      await weights.copyTo(bytesOf(arriving.weights));
      await optimizer.copyTo(bytesOf(arriving.optimizer));
      live = arriving;
      candidate = null;
    },
  });
  const does = {
    initialize() {
      live = fresh(eagerness);
      candidate = null;
    },
    begin() {
      candidate = { weights: live.weights.slice(), optimizer: live.optimizer.slice() };
    },
    /** The gradient of its rows goes to where Muster sums it with those of the same rank of other trainers. */
    learn({ samples, options, shard, epoch }) {
      const { gradient, stats } = learn(samples, options, need().weights, start);
      for (const { from, values } of training.gradient(shard, epoch).windows())
        values.set(gradient.subarray(from, from + values.length));
      return stats;
    },
    squares() {
      summed = new Float32Array(length);
      for (const { from, values } of training.sum().windows()) summed.set(values, from);
      return summed.reduce((sum, value) => sum + value * value, 0);
    },
    update: (options) => update(need(), summed, options),
    promote() {
      live = need();
      candidate = null;
    },
    discard() {
      candidate = null;
    },
  };
  return {
    sections: () => ({ live: sectionsOf(live), candidate: candidate && sectionsOf(candidate) }),
    /** What it begins in the order in which it was asked. */
    async answer({ perform, call, given }, signal = new AbortController().signal) {
      return perform === undefined ? does[call](given) : await training.perform(perform, signal);
    },
  };
}

/** Rank 0: the engine that Muster sees. */
export async function trainTogether(options, { rank, training, needs, describe, build }) {
  const { modelId, vocab, maxContext, logprobs, tensors } = describe(options, needs);
  const own = shardOf(training, options);
  const others = await meetAll(rank);
  const ranks = [{ ask: (what, signal) => own.answer(what, signal) }, ...others.ranks];
  const all = (what, signal) => Promise.all(ranks.map(({ ask }) => ask(what, signal)));
  const call = (name, given) => all({ call: name, given });
  /** For what can not fail but by a rank that is gone: that is told by onLost. */
  const tell = (name) => void call(name).catch(() => {});
  const info = {
    ...{ kind: "echo_ranks", build, modelId, vocab, maxContext, logprobs, tensors, ranks: 1 },
    ...{ weightsBytes: 4 * vocab, optimizerBytes: 4 * vocab, gradientElements: training.tensors[0].rows.length },
  };
  return {
    info: () => info,
    async initialize({ kind }) {
      if (kind !== "seed") throw new Error('echo begins from a seed; set weights.source = "seed"');
      await call("initialize");
    },
    performAll: (ticket, signal) => all({ perform: ticket }, signal),
    state: () => own.sections().live,
    candidate: () => own.sections().candidate,
    restore: async () => {
      throw new Error("each rank restores its own shard");
    },
    begin: () => tell("begin"),
    async accumulate(samples, { normalizer, clipLow, clipHigh, temperature, shard, epoch, signal }) {
      signal.throwIfAborted();
      const plain = samples.map(({ tokens, promptLength, logprobs: drawn, advantage, lossMask }) => ({
        ...{ tokens: [...tokens], promptLength, logprobs: [...drawn], advantage },
        ...(lossMask ? { lossMask: [...lossMask] } : {}),
      }));
      const parts = await call("learn", {
        samples: plain,
        options: { normalizer, clipLow, clipHigh, temperature },
        shard,
        epoch,
      });
      const sum = (figure) => parts.reduce((total, part) => total + part[figure], 0);
      return Object.fromEntries(
        ["tokens", "clipped", "klSum", "entropySum", "lossSum"].map((name) => [name, sum(name)]),
      );
    },
    async stage(_summed, { lr, beta1, clipNorm }) {
      const squares = await call("squares");
      const gradNorm = Math.sqrt(squares.reduce((sum, value) => sum + value, 0));
      if (!Number.isFinite(gradNorm)) return { gradNorm: 0, finite: false };
      const scale = clipNorm > 0 && gradNorm > clipNorm ? clipNorm / gradNorm : 1;
      await call("update", { lr, beta1, scale });
      return { gradNorm, finite: true };
    },
    promote: () => tell("promote"),
    discard: () => tell("discard"),
    onLost: others.onLost,
    close: async () => others.letGo(),
  };
}
