/** Ends that nobody tells of: a rank or a master that stands still, whose kernel still takes what is written to it; strangers who say nothing. */
import { connect, createServer } from "node:net";
import { type Clock, silentLogger } from "@muster/base";
import { systemClock } from "@muster/runtime";
import { manualClock } from "@muster/runtime/internal";
import { afterEach, expect, test } from "vitest";
import { type Joined, type JoinOptions, join } from "../../src/multinode/join.ts";
import { openMaster } from "../../src/multinode/master.ts";

const token = "0123456789abcdef0123456789abcdef";
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function opened({ clock = systemClock(), port = 0 }: { clock?: Clock; port?: number }) {
  const news: string[] = [];
  const master = await openMaster({
    ...{ host: "127.0.0.1", port, token, nodes: 3, said: {}, clock, logger: silentLogger },
    admit: () => ({ job: "exp1", connection: "{}", tunnel: true, capacity: "" }),
    broker: null,
    onNews: (line) => void news.push(line),
    onChange: () => {},
  });
  closing.push(() => master.end({ outcome: "interrupted", reason: "" }));
  return { port: master.port, news };
}

function asking(port: number, more: Partial<JoinOptions> = {}): JoinOptions {
  const controller = new AbortController();
  closing.push(() => controller.abort(new Error("the test is over")));
  return {
    ...{ host: "127.0.0.1", port, token, rank: 1, said: {}, timeoutMs: 120_000, clock: systemClock() },
    ...{ signal: controller.signal, onNews: () => {}, ...more },
  };
}

async function joined(options: JoinOptions): Promise<Joined> {
  const one = await join(options);
  closing.push(() => one.leave());
  return one;
}

/** A port at which nobody listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { readonly port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("a rank that stands still is missing after ten seconds of silence, though what is written to it goes somewhere", async () => {
  const [here, there] = [manualClock(), manualClock()];
  const { port, news } = await opened({ clock: here });
  const { over } = await joined(asking(port, { clock: there }));
  here.advance(10_000);
  expect(news).toHaveLength(1);
  here.advance(2_000);
  await expect.poll(() => news.at(-1)).toMatch(/^- rank 1 .* left: silent for 10 s/);
  expect((await over).kind).toBe("lost");
});

test("a master that stands still is given up after as long", async () => {
  const [here, there] = [manualClock(), manualClock()];
  const { port } = await opened({ clock: here });
  const { over } = await joined(asking(port, { clock: there }));
  there.advance(12_000);
  expect(await over).toEqual({ kind: "lost", reason: "the master was silent for 10 s" });
});

test("who says something now and then stays", async () => {
  const here = manualClock();
  const { port, news } = await opened({ clock: here });
  const clock = manualClock();
  const one = await joined(asking(port, { clock }));
  let isOver = false;
  void one.over.then(() => {
    isOver = true;
  });
  for (let i = 0; i < 24; i++) {
    (i % 2 === 0 ? clock : here).advance(2_000);
    for (let turn = 0; turn < 4; turn++) await new Promise(setImmediate);
  }
  expect([news.length, isOver]).toEqual([1, false]);
});

test("a rank that waited long for its master still waits for the end of an earlier life", async () => {
  const port = await freePort();
  let skewMs = 0;
  const real = systemClock();
  const news: string[] = [];
  const clock: Clock = { now: () => real.now() + skewMs, after: real.after };
  const waiting = joined(asking(port, { clock, onNews: (line) => void news.push(line) }));
  await expect.poll(() => news.at(-1)).toMatch(/waits for the master/);
  const { news: seen } = await opened({ port });
  const first = await joined(asking(port));
  skewMs = 60_000;
  await expect.poll(() => news.at(-1), { timeout: 5_000 }).toMatch(/is held by .* already/);
  first.leave();
  expect((await waiting).admission.job).toBe("exp1");
  expect(seen.at(-1)).toMatch(/joined/);
});

test("strangers who open connections and say nothing are few, and keep no rank out", async () => {
  const { port } = await opened({});
  let ended = 0;
  for (let i = 0; i < 300; i++) {
    const stranger = connect(port, "127.0.0.1").on("error", () => {});
    stranger.once("close", () => ended++);
    closing.push(() => stranger.destroy());
    await new Promise((resolve) => stranger.once("connect", resolve));
  }
  await expect.poll(() => ended).toBe(300 - 256);
  expect((await joined(asking(port))).admission.job).toBe("exp1");
});
