/**
 * The echo engine as a sampler of several processes, to copy from. Rank 0 speaks for the replica: it listens where the others meet it, hands on the weights,
 * and shares out what is asked among all ranks. "Engines of several processes" in the documentation goes through it.
 */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { clearTimeout, setTimeout as startTimer } from "node:timers";
import { setTimeout } from "node:timers/promises";
import { engine as echo } from "../echo-engine/echo.mjs";

/** How long the ranks of a replica wait for each other. */
const meetMs = 30_000;

export const engine = (tools) => {
  const alone = echo(tools);
  return {
    ...alone,
    kind: "echo_ranks",
    build: () => "echo-ranks-1",
    openRollout: async (options, opening) => {
      const own = await alone.openRollout(options, opening);
      return opening.rank ? await together(own, opening.rank) : own;
    },
    openRank: async (options, opening, role) => {
      if (role !== "rollout") throw new Error("only samplers of echo-ranks are several processes");
      return await helper(await alone.openRollout(options, opening), opening.rank);
    },
  };
};

const send = (socket, message) => socket.write(`${JSON.stringify(message)}\n`);

/** Messages are lines of JSON; numbers survive that exactly, also those of 32 bits. */
const hear = (socket, onMessage) => {
  createInterface({ input: socket }).on("line", (line) => onMessage(JSON.parse(line)));
};

/** Rank 0: the engine that Muster sees. */
async function together(own, { replica, life, size, master }) {
  const ranks = new Map();
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
  let met = () => {};
  const all = new Promise((resolve) => {
    met = resolve;
  });
  const server = createServer((socket) => {
    let rank = null;
    socket.on("error", () => {});
    hear(socket, (message) => {
      if (message.hello) {
        // Whoever is left of another life is not let in.
        if (message.hello.replica !== replica || message.hello.life !== life) return void socket.destroy();
        rank = message.hello.rank;
        ranks.set(rank, socket);
        if (ranks.size === size - 1) met();
      } else open.get(message.id)?.resolve(message.done);
    });
    socket.on("close", () => rank !== null && lose(rank));
  });
  server.listen(master.port, master.address);
  await once(server, "listening");
  const timer = startTimer(() => met(`after ${meetMs} ms only ${ranks.size + 1} of ${size} ranks are there`), meetMs);
  const late = await all;
  clearTimeout(timer);
  if (late) throw new Error(late);

  let nextId = 0;
  const ask = (rank, what) => {
    if (lost) return Promise.reject(lost);
    const id = nextId++;
    const answer = new Promise((resolve, reject) => open.set(id, { resolve, reject }));
    send(ranks.get(rank), { id, ...what });
    return answer.finally(() => open.delete(id));
  };
  const others = () => [...ranks.keys()].sort((a, b) => a - b);
  return {
    ...own,
    info: () => ({ ...own.info(), build: "echo-ranks-1" }),
    onLost(run) {
      tellLost = run;
      if (lost) run(lost);
    },
    async generate(requests, signal) {
      signal.throwIfAborted();
      // Response i of a request belongs to the stream (seed, from + i), whoever draws it.
      const share = (rank) =>
        requests.flatMap((request, row) =>
          Array.from({ length: request.n }, (_, i) => i)
            .filter((i) => i % size === rank)
            .map((i) => ({ row, i, request: { ...request, n: 1, from: (request.from ?? 0) + i } })),
        );
      const drawn = requests.map(({ n }) => new Array(n));
      const put = (pieces, rows) => {
        for (const [k, { row, i }] of pieces.entries()) drawn[row][i] = rows[k];
      };
      const asked = others().map(async (rank) => {
        const pieces = share(rank);
        const requestsOf = pieces.map(({ request }) => ({ ...request, promptIds: [...request.promptIds] }));
        const rows = pieces.length > 0 ? await ask(rank, { generate: requestsOf }) : [];
        put(pieces, rows.map(revive));
      });
      const pieces = share(0);
      const rows = await own.generate(
        pieces.map(({ request }) => request),
        signal,
      );
      put(
        pieces,
        rows.map(([one]) => one),
      );
      await Promise.all(asked);
      return drawn;
    },
    async updateWeights(update) {
      if (update.version === own.weightVersion()) return;
      const bytes = new Uint8Array(update.bytes);
      await update.copyTo(bytes);
      const section = Buffer.from(bytes).toString("base64");
      await Promise.all(others().map((rank) => ask(rank, { weights: section, version: update.version })));
      await own.updateWeights(inline(update.version, bytes));
    },
    async close() {
      isClosing = true;
      for (const socket of ranks.values()) socket.end(`${JSON.stringify({ bye: true })}\n`);
      server.close();
      await own.close();
    },
  };
}

const inline = (version, bytes) => ({
  version,
  via: "inline",
  bytes: bytes.byteLength,
  copyTo: async (into) => into.set(bytes),
});

const revive = (one) => ({
  ...one,
  responseIds: Int32Array.from(one.responseIds),
  logprobs: Float32Array.from(one.logprobs),
});

/** Ranks from 1 on: do what rank 0 asks, until it lets them go. */
async function helper(own, { replica, life, rank, master }) {
  const socket = await meet(master);
  send(socket, { hello: { replica, life, rank } });
  let isLetGo = false;
  const ended = new Promise((resolve, reject) => {
    const broke = (error) => {
      reject(error);
      socket.destroy();
    };
    socket.on("error", broke);
    socket.on("close", () => (isLetGo ? resolve() : reject(new Error(`rank 0 of ${replica} is gone`))));
    hear(socket, (message) => {
      if (message.bye) isLetGo = true;
      else answer(own, message).then((done) => send(socket, { id: message.id, done }), broke);
    });
  });
  return {
    ended,
    close: async () => {
      isLetGo = true;
      socket.end();
      await own.close();
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

async function answer(own, { generate, weights, version }) {
  if (weights !== undefined) {
    await own.updateWeights(inline(version, Buffer.from(weights, "base64")));
    return true;
  }
  const requests = generate.map((request) => ({ ...request, promptIds: Int32Array.from(request.promptIds) }));
  const rows = await own.generate(requests, new AbortController().signal);
  return rows.map(([one]) => ({ ...one, responseIds: [...one.responseIds], logprobs: [...one.logprobs] }));
}
