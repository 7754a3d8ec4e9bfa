/** How the processes of a replica meet and speak to each other: lines of JSON over TCP, for engines to copy. "Engines of several processes" goes through it. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { hostname } from "node:os";
import { createInterface } from "node:readline";
import { clearInterval, clearTimeout, setInterval, setTimeout as startTimer } from "node:timers";
import { setTimeout } from "node:timers/promises";

/**
 * How long the ranks of a replica wait for each other, how often each says that it is there, and after how many times without a word it is gone. They speak
 * on the main thread: an engine that computes for longer without a turn of its loop has to count to more.
 */
const patience = { meetMs: 30_000, beatMs: 1_000, silentBeats: 15 };

const send = (socket, message) => socket.write(`${JSON.stringify(message)}\n`);

/** Messages are lines of JSON; numbers survive that exactly, also those of 32 bits. */
const hear = (socket, onMessage) => {
  const lines = createInterface({ input: socket });
  lines.on("line", (line) => onMessage(JSON.parse(line)));
  // It passes on what its socket says, where it is heard.
  lines.on("error", () => {});
};

/** A host that dies or is cut off ends no connection: it is only silent. What comes late is counted, so that time in which this process stood still is none. */
const hearBeats = (socket, { beatMs, silentBeats }, onSilent) => {
  let missed = 0;
  socket.on("data", () => {
    missed = 0;
  });
  const timer = setInterval(() => {
    missed += 1;
    if (missed > silentBeats) onSilent(`it said nothing for ${(silentBeats * beatMs) / 1_000} s`);
    else if (socket.writable) send(socket, { beat: true });
  }, beatMs);
  socket.on("close", () => clearInterval(timer));
};

/** Waits for the other ranks. @returns Of each, what it said of itself and a way to ask it, in their order. */
export async function meetAll({ replica, life, size, master }, { meetMs, ...beats } = patience) {
  const met = new Map();
  const open = new Map();
  let tellLost = () => {};
  let isClosing = false;
  let lost = null;
  const lose = ({ rank, host }, how = "") => {
    if (isClosing || lost) return;
    lost = new Error(`rank ${rank} of ${replica} on ${host} is gone${how && `: ${how}`}`);
    for (const { reject } of open.values()) reject(lost);
    tellLost(lost);
  };
  let allMet = () => {};
  const all = new Promise((resolve) => {
    allMet = resolve;
  });
  const server = createServer((socket) => {
    let from = null;
    socket.on("error", () => {});
    hear(socket, (message) => {
      if (message.beat) return;
      if (message.hello) {
        // Whoever is left of another life is not let in.
        if (message.hello.replica !== replica || message.hello.life !== life) return void socket.destroy();
        from = message.hello;
        met.set(from.rank, { ...from, socket });
        hearBeats(socket, beats, (how) => {
          lose(from, how);
          socket.destroy();
        });
        if (met.size === size - 1) allMet();
      } else if (message.failed !== undefined) open.get(message.id)?.reject(new Error(message.failed));
      else open.get(message.id)?.resolve(message.done);
    });
    socket.on("close", () => from && lose(from));
  });
  server.listen(master.port, master.address);
  await once(server, "listening");
  const missing = () => Array.from({ length: size - 1 }, (_, i) => i + 1).filter((rank) => !met.has(rank));
  const timer = startTimer(
    () => allMet(`rank ${missing().join(", ")} of ${replica} did not come within ${meetMs} ms`),
    meetMs,
  );
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
export async function helper({ replica, life, rank, master }, about, answer, { meetMs, ...beats } = patience) {
  const first = `rank 0 of ${replica} at ${master.address}:${master.port}`;
  const socket = await meet(master, first, meetMs);
  send(socket, { hello: { replica, life, rank, host: hostname(), about } });
  let isLetGo = false;
  const ended = new Promise((resolve, reject) => {
    socket.on("error", (error) => isLetGo || reject(new Error(`${first} is gone: ${error.message}`)));
    socket.on("close", () => (isLetGo ? resolve() : reject(new Error(`${first} is gone`))));
    hearBeats(socket, beats, (how) => socket.destroy(new Error(how)));
    hear(socket, (message) => {
      if (message.beat) return;
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

/** Rank 0 has begun, and may not listen yet; where its host is cut off, it is not even refused. */
async function meet({ address, port }, first, meetMs) {
  const late = AbortSignal.timeout(meetMs);
  for (;;) {
    const socket = connect(port, address);
    try {
      await once(socket, "connect", { signal: late });
      return socket;
    } catch (error) {
      socket.destroy();
      if (late.aborted) throw new Error(`${first} could not be reached within ${meetMs} ms`);
      if (error.code !== "ECONNREFUSED") throw new Error(`${first} could not be reached: ${error.message}`);
      await setTimeout(50);
    }
  }
}
