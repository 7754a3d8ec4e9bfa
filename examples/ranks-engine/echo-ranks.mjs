/**
 * The echo engine as a sampler of several processes, to copy from. Each has its rows of the weights, takes them itself, and nothing else of a version. Rank 0
 * speaks for the replica: it listens where the others meet it, tells them which version to take and when to use it, and asks them for the weights of the tokens
 * that it needs. "Engines of several processes" in the documentation goes through it.
 */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { clearTimeout, setTimeout as startTimer } from "node:timers";
import { setTimeout } from "node:timers/promises";
import { engine as echo, respond } from "../echo-engine/echo.mjs";

/** How long the ranks of a replica wait for each other. */
const meetMs = 30_000;

export const engine = (tools) => {
  const alone = echo(tools);
  return {
    ...alone,
    kind: "echo_ranks",
    build: () => "echo-ranks-2",
    // Each of the processes has some rows of every tensor; there is one layer.
    layout: (_options, _tensors, size) => ({ tp: size, pp: 1, cut: () => ({ partition: 0, layer: "first" }) }),
    openRollout: async (options, opening) => {
      if (!opening.rank) return await alone.openRollout(options, opening);
      const { modelId, vocab, maxContext, logprobs } = alone.describe(options, opening.needs);
      return await together(
        { kind: "echo_ranks", build: "echo-ranks-2", modelId, vocab, maxContext, logprobs, ranks: 1 },
        opening,
      );
    },
    openRank: async (_options, { rank, shards }, role) => {
      if (role !== "rollout") throw new Error("only samplers of echo-ranks are several processes");
      return await helper(rowsOf(shards), rank);
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

const send = (socket, message) => socket.write(`${JSON.stringify(message)}\n`);

/** Messages are lines of JSON; numbers survive that exactly, also those of 32 bits. */
const hear = (socket, onMessage) => {
  createInterface({ input: socket }).on("line", (line) => onMessage(JSON.parse(line)));
};

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

/** Waits for the other ranks. @returns Of each, its rows and a way to ask it. */
async function meetAll({ replica, life, size, master }) {
  const met = new Map();
  const open = new Map();
  let tellLost = () => {};
  let isClosing = false;
  let lost = null;
  const lose = (rank) => {
    if (isClosing) return;
    lost ??= new Error(`rank ${rank} of ${replica} is gone`);
    for (const { reject } of open.values()) reject(lost);
    tellLost(lost);
  };
  let allMet = () => {};
  const all = new Promise((resolve) => {
    allMet = resolve;
  });
  const server = createServer((socket) => {
    let rank = null;
    socket.on("error", () => {});
    hear(socket, (message) => {
      if (message.hello) {
        // Whoever is left of another life is not let in.
        if (message.hello.replica !== replica || message.hello.life !== life) return void socket.destroy();
        rank = message.hello.rank;
        met.set(rank, { ...message.hello, socket });
        if (met.size === size - 1) allMet();
      } else if (message.failed !== undefined) open.get(message.id)?.reject(new Error(message.failed));
      else open.get(message.id)?.resolve(message.done);
    });
    socket.on("close", () => rank !== null && lose(rank));
  });
  server.listen(master.port, master.address);
  await once(server, "listening");
  const timer = startTimer(() => allMet(`after ${meetMs} ms only ${met.size + 1} of ${size} ranks are there`), meetMs);
  const late = await all;
  clearTimeout(timer);
  if (late) throw new Error(late);

  let nextId = 0;
  const askOf = (socket) => (what) => {
    if (lost) return Promise.reject(lost);
    const id = nextId++;
    const answered = new Promise((resolve, reject) => open.set(id, { resolve, reject }));
    send(socket, { id, ...what });
    return answered.finally(() => open.delete(id));
  };
  return {
    ranks: [...met.values()].map(({ start, length, socket }) => ({ start, length, ask: askOf(socket) })),
    onLost(run) {
      tellLost = run;
      if (lost) run(lost);
    },
    letGo() {
      isClosing = true;
      for (const { socket } of met.values()) socket.end(`${JSON.stringify({ bye: true })}\n`);
      server.close();
    },
  };
}

/** Ranks from 1 on: do what rank 0 asks, until it lets them go. */
async function helper(own, { replica, life, rank, master }) {
  const socket = await meet(master);
  send(socket, { hello: { replica, life, rank, start: own.start, length: own.length } });
  let isLetGo = false;
  const ended = new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("close", () => (isLetGo ? resolve() : reject(new Error(`rank 0 of ${replica} is gone`))));
    hear(socket, (message) => {
      if (message.bye) {
        isLetGo = true;
        return;
      }
      const { id } = message;
      // What fails here is an answer: rank 0 says it to Muster, and the version is ordered again.
      answer(own, message).then(
        (done) => send(socket, { id, done }),
        (error) => send(socket, { id, failed: error.message }),
      );
    });
  });
  return {
    ended,
    close: async () => {
      isLetGo = true;
      socket.end();
    },
  };
}

/** Rank 0 has begun, and may not listen yet. */
async function meet({ address, port }) {
  for (const lateMs = Date.now() + meetMs; ; ) {
    const socket = connect(port, address);
    try {
      await once(socket, "connect");
      return socket;
    } catch (error) {
      if (error.code !== "ECONNREFUSED" || Date.now() > lateMs) throw error;
      await setTimeout(50);
    }
  }
}
