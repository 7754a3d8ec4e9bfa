/** How the processes of a replica meet and speak to each other: lines of JSON over TCP, for engines to copy. "Engines of several processes" goes through it. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { clearTimeout, setTimeout as startTimer } from "node:timers";
import { setTimeout } from "node:timers/promises";

/** How long the ranks of a replica wait for each other. */
const meetMs = 30_000;

const send = (socket, message) => socket.write(`${JSON.stringify(message)}\n`);

/** Messages are lines of JSON; numbers survive that exactly, also those of 32 bits. */
const hear = (socket, onMessage) => {
  createInterface({ input: socket }).on("line", (line) => onMessage(JSON.parse(line)));
};

/** Waits for the other ranks. @returns Of each, what it said of itself and a way to ask it, in their order. */
export async function meetAll({ replica, life, size, master }) {
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
    ranks: [...met.values()]
      .sort((a, b) => a.rank - b.rank)
      .map(({ about, socket }) => ({ ...about, ask: askOf(socket) })),
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

/** Ranks from 1 on: `answer` what rank 0 asks, in the order in which it asks, until it lets them go. */
export async function helper({ replica, life, rank, master }, about, answer) {
  const socket = await meet(master);
  send(socket, { hello: { replica, life, rank, about } });
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
      answer(message).then(
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
