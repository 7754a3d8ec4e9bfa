/**
 * The echo engine with a table of 200,000 tensors: behind its own weights lie tensors of one element each, which training leaves alone. The process that
 * writes checkpoints knows the first of them only, as a host with an older engine would.
 */
import { engine as echo } from "../../../examples/echo-engine/echo.mjs";

const rows = 200_000;
const moreBytes = 4 * (rows - 1);

const tableOf = ([own]) => [
  own,
  ...Array.from({ length: rows - 1 }, (_, i) => ({
    name: `model.layers.${i % 61}.mlp.experts.${Math.floor(i / 61)}.gate_proj.weight_scale`,
    dtype: "f32",
    shape: [1],
    offsetBytes: own.sizeBytes + 4 * i,
    sizeBytes: 4,
  })),
];

export const engine = (tools) => {
  const adapter = echo(tools);
  return {
    ...adapter,
    describe: (...asked) => {
      const described = adapter.describe(...asked);
      return process.argv.includes("checkpoint") ? described : { ...described, tensors: tableOf(described.tensors) };
    },
    openPolicy: async (...asked) => trainer(await adapter.openPolicy(...asked)),
    openRollout: async (...asked) => sampler(await adapter.openRollout(...asked)),
  };
};

/** Weights of echo, with the others behind them. */
const withMore = (weights) => {
  const all = new Uint8Array(weights.length + moreBytes);
  all.set(weights);
  return all;
};

/** The part of a source that echo knows. */
const ownPartOf = (source) => ({
  ...source,
  bytes: source.bytes - moreBytes,
  copyTo: async (into) => {
    const all = new Uint8Array(source.bytes);
    await source.copyTo(all);
    into.set(all.subarray(0, into.length));
  },
});

function trainer(own) {
  const info = own.info();
  const whole = { ...info, tensors: tableOf(info.tensors), weightsBytes: info.weightsBytes + moreBytes };
  const grown = ({ weights, optimizer }) => ({ weights: withMore(weights), optimizer });
  return {
    ...own,
    info: () => whole,
    state: () => grown(own.state()),
    candidate: () => grown(own.candidate()),
    restore: ({ weights, optimizer }) => own.restore({ weights: ownPartOf(weights), optimizer }),
  };
}

function sampler(own) {
  return { ...own, updateWeights: (update) => own.updateWeights(ownPartOf(update)) };
}
