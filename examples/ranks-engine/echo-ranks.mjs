/**
 * The echo engine of several processes, to copy from. Those of a sampler each have their rows of the weights, take them themselves, and nothing else of a
 * version. Rank 0 speaks for the replica: it listens where the others meet it, tells them which version to take and when to use it, and asks them for the weights
 * of the tokens that it needs. Those of a trainer (trainer.mjs) each have their rows of the weights and the optimizer. "Engines of several processes" in the
 * documentation goes through it.
 */
import { engine as echo, respond } from "../echo-engine/echo.mjs";
import { helper, meetAll } from "./meet.mjs";
import { shardOf, trainTogether } from "./trainer.mjs";

export const engine = (tools) => {
  const alone = echo(tools);
  return {
    ...alone,
    kind: "echo_ranks",
    build: () => "echo-ranks-3",
    // Each of the processes has some rows of every tensor: those of a sampler by tensor parallelism, those of a trainer by FSDP. There is one layer.
    layout: (_options, _tensors, size, role) => ({
      ...(role === "policy" ? { tp: 1, fsdp: size, pp: 1 } : { tp: size, pp: 1 }),
      cut: () => ({ partition: role === "policy" ? null : 0, layer: "first" }),
    }),
    // … and each of those of a trainer its rows of the optimizer, too.
    trainsInShards: true,
    openPolicy: async (options, opening) => {
      if (!opening.rank) return await alone.openPolicy(options, opening);
      return await trainTogether(options, { ...opening, describe: alone.describe, build: "echo-ranks-3" });
    },
    openRollout: async (options, opening) => {
      if (!opening.rank) return await alone.openRollout(options, opening);
      const { modelId, vocab, maxContext, logprobs } = alone.describe(options, opening.needs);
      return await together(
        { kind: "echo_ranks", build: "echo-ranks-3", modelId, vocab, maxContext, logprobs, ranks: 1 },
        opening,
      );
    },
    openRank: async (options, { rank, shards, training }, role) => {
      if (role === "policy") {
        const own = shardOf(training, options);
        return await helper(rank, {}, (what) => own.answer(what));
      }
      const own = rowsOf(shards);
      return await helper(rank, { start: own.start, length: own.length }, (what) => answer(own, what));
    },
  };
};

/** The rows of one rank: those in use, and those of the version that it took last. */
function rowsOf(shards) {
  const [{ start, length }] = shards.tensors;
  let asked = null;
  let taken = null;
  let inUse = null;
  return {
    start,
    length,
    version: () => inUse?.version ?? null,
    async take({ ticket, version }, signal) {
      asked = version;
      const floats = new Float32Array(length);
      const receipt = await shards.pull(ticket, new Uint8Array(floats.buffer), signal);
      // What was given up and comes late does not replace what was asked for since.
      if (asked === version) taken = { version, floats };
      return receipt;
    },
    use(version) {
      if (taken?.version !== version) throw new Error(`version ${version} was not taken`);
      inUse = taken;
    },
    weightsOf: (tokens) => tokens.map((token) => inUse.floats[token - start]),
  };
}

/** Rank 0: the engine that Muster sees. */
async function together(info, { rank, shards }) {
  const own = rowsOf(shards);
  const others = await meetAll(rank);
  const ranks = [{ ...own, ask: (what, signal) => answer(own, what, signal) }, ...others.ranks];
  const all = (what, signal) => Promise.all(ranks.map(({ ask }) => ask(what, signal)));
  /** The weights of some tokens, from the ranks that have them. */
  const gathered = async (tokens) => {
    const weights = new Map();
    const from = async ({ start, length, ask }) => {
      const rows = tokens.filter((token) => token >= start && token < start + length);
      if (rows.length === 0) return;
      const found = await ask({ weightsOf: rows });
      for (const [i, token] of rows.entries()) weights.set(token, found[i]);
    };
    await Promise.all(ranks.map(from));
    return (token) => weights.get(token);
  };
  let turn = Promise.resolve();
  /** Weights do not change in the middle of a pass. */
  const inTurn = (work) => {
    const result = turn.then(work);
    turn = result.catch(() => {});
    return result;
  };
  return {
    info: () => info,
    health: async () => ({ ok: own.version() !== null, state: own.version() === null ? "starting" : "up" }),
    generate: (requests, signal) =>
      inTurn(async () => {
        signal.throwIfAborted();
        const weightOf = await gathered([...new Set(requests.flatMap(({ promptIds }) => [...promptIds]))]);
        const model = { weightOf, maxContext: info.maxContext, version: own.version() };
        return requests.map((request) => Array.from({ length: request.n }, (_, i) => respond(request, i, model)));
      }),
    async updateWeights(update) {
      const { version, ticket, signal } = update;
      if (version === own.version()) return;
      if (update.via !== "ranks") throw new Error(`echo-ranks takes its weights by ranks, not by ${update.via}`);
      // All take their rows beside those in use; one that can not leaves all of them with what they have.
      for (const receipt of await all({ take: { ticket, version } }, signal)) update.arrived(receipt);
      await inTurn(() => {
        // Another version may be wanted since: then its rows lie where those of this one lay.
        signal?.throwIfAborted();
        return all({ use: version });
      });
    },
    weightVersion: () => own.version(),
    onLost: others.onLost,
    // A call of `generate` is over when the ranks have answered, so there is nothing to end or to hold.
    abort: async () => {},
    pause: async () => {},
    resume: async () => {},
    close: async () => others.letGo(),
  };
}

/** What a rank does when it is asked. */
async function answer(own, { take, use, weightsOf }, signal = new AbortController().signal) {
  if (take !== undefined) return await own.take(take, signal);
  if (use !== undefined) return void own.use(use);
  return own.weightsOf(weightsOf);
}
