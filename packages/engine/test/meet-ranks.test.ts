/** The example's way of ranks to each other, which engines copy: whoever of a replica is gone is noticed, and named, also where its host ends no connection. */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { hostname } from "node:os";
import { afterEach, describe, expect, it } from "vitest";

interface Rank {
  ask(what: object): Promise<unknown>;
}
interface Patience {
  readonly meetMs: number;
  readonly beatMs: number;
  readonly silentBeats: number;
}
interface Meeting {
  meetAll(
    rank: object,
    patience: Patience,
  ): Promise<{ readonly ranks: readonly Rank[]; onLost(run: (cause: Error) => void): void; letGo(): void }>;
  helper(
    rank: object,
    about: object,
    answer: (what: object) => Promise<unknown>,
    patience: Patience,
  ): Promise<{ readonly ended: Promise<void>; close(): Promise<void> }>;
}

const { meetAll, helper }: Meeting = await import(
  new URL("../../../examples/ranks-engine/meet.mjs", import.meta.url).href
);

const patience = { meetMs: 10_000, beatMs: 20, silentBeats: 5 };
const silent = "is gone: it said nothing for 0.1 s";
const replica = { replica: "policy-1", life: 3, size: 2 };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A server at a free port of this host. */
async function listening(server: Server): Promise<{ readonly address: string; readonly port: number }> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => server.close());
  const address = server.address();
  return { address: "127.0.0.1", port: typeof address === "object" ? (address?.port ?? 0) : 0 };
}

/** A port where nobody listens yet. */
async function freePort(): Promise<{ readonly address: string; readonly port: number }> {
  const server = createServer();
  const place = await listening(server);
  server.close();
  await once(server, "close");
  return place;
}

/** Connects until somebody listens there. */
async function reach(port: number): Promise<Socket> {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
      socket.on("error", () => {});
      closing.push(() => socket.destroy());
      return socket;
    } catch {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

describe("rank 0", () => {
  /** Rank 1 says who it is, and nothing from then on. */
  async function withSilent() {
    const master = await freePort();
    const meeting = meetAll({ ...replica, master }, patience);
    const socket = await reach(master.port);
    socket.write(`${JSON.stringify({ hello: { replica: "policy-1", life: 3, rank: 1, host: "far", about: {} } })}\n`);
    const met = await meeting;
    closing.push(() => met.letGo());
    return { met, socket };
  }

  it("gives up what it asked a rank that says nothing any more, and names rank and host, once", async () => {
    const { met } = await withSilent();
    const losses: string[] = [];
    met.onLost(({ message }) => losses.push(message));
    const [rank] = met.ranks;
    await expect(rank?.ask({ call: "squares" })).rejects.toThrow(`rank 1 of policy-1 on far ${silent}`);
    await expect(rank?.ask({ call: "squares" })).rejects.toThrow("rank 1 of policy-1 on far");
    expect(losses).toEqual([`rank 1 of policy-1 on far ${silent}`]);
  });

  it("outlives a connection that breaks, and names who was at its other end", async () => {
    const { met, socket } = await withSilent();
    const lost = new Promise<string>((resolve) => met.onLost(({ message }) => resolve(message)));
    socket.resetAndDestroy();
    expect(await lost).toBe("rank 1 of policy-1 on far is gone");
  });

  it("waits for one that answers late, as long as it is heard", async () => {
    const { met, socket } = await withSilent();
    const asked = met.ranks[0]?.ask({ call: "squares" });
    const beats = 4 * patience.silentBeats;
    for (let heard = 0; heard < beats; ) {
      const [bytes] = (await once(socket, "data")) as [Buffer];
      heard += bytes.toString().split('"beat"').length - 1;
      socket.write('{"beat":true}\n');
    }
    socket.write('{"id":0,"done":7}\n');
    expect(await asked).toBe(7);
  });

  it("names who did not come", async () => {
    const master = await freePort();
    await expect(meetAll({ ...replica, size: 3, master }, { ...patience, meetMs: 50 })).rejects.toThrow(
      "rank 1, 2 of policy-1 did not come within 50 ms",
    );
  });
});

describe("another rank", () => {
  const rank = { replica: "policy-1", life: 3, rank: 1 };
  const nothing = async () => {};

  it("ends when rank 0 says nothing any more, and says where that was", async () => {
    const server = createServer((socket) => {
      closing.push(() => socket.destroy());
    });
    const master = await listening(server);
    const { ended } = await helper({ ...rank, master }, {}, nothing, patience);
    await expect(ended).rejects.toThrow(`rank 0 of policy-1 at 127.0.0.1:${master.port} ${silent}`);
  });

  it("is heard while it works, for longer than silence may last, and ends when rank 0 lets it go", async () => {
    let finish = (_: number) => {};
    const working = new Promise<number>((resolve) => {
      finish = resolve;
    });
    const said: string[] = [];
    const server = createServer((socket) => {
      socket.write('{"id":0,"call":"learn"}\n');
      socket.on("data", (bytes) => {
        said.push(...bytes.toString().trim().split("\n"));
        socket.write('{"beat":true}\n');
        if (said.filter((line) => line.includes("beat")).length > 3 * patience.silentBeats) finish(5);
        if (said.at(-1) === '{"id":0,"done":5}') socket.end('{"bye":true}\n');
      });
    });
    const master = await listening(server);
    const { ended } = await helper({ ...rank, master }, { rows: 4 }, () => working, patience);
    await ended;
    expect(JSON.parse(said[0] ?? "")).toEqual({ hello: { ...rank, host: hostname(), about: { rows: 4 } } });
  });

  it("does not wait for ever to reach rank 0", async () => {
    const master = await freePort();
    await expect(helper({ ...rank, master }, {}, nothing, { ...patience, meetMs: 50 })).rejects.toThrow(
      `rank 0 of policy-1 at 127.0.0.1:${master.port} could not be reached within 50 ms`,
    );
  });
});
