/** A master and its ranks, over real connections of loopback: who is let in, who is not, and what each is told. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { silentLogger } from "@muster/base";
import { systemClock } from "@muster/runtime";
import { afterEach, describe, expect, test } from "vitest";
import { type JoinOptions, join, openTunnel } from "../../src/multinode/join.ts";
import { type Master, openMaster } from "../../src/multinode/master.ts";
import type { RankState } from "../../src/multinode/ranks-file.ts";

const token = "0123456789abcdef0123456789abcdef";
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Opened {
  readonly master: Master;
  readonly news: string[];
  ranks(): readonly RankState[];
}

async function opened(
  more: { readonly port?: number; readonly broker?: { host: string; port: number } } = {},
): Promise<Opened> {
  const news: string[] = [];
  let ranks: readonly RankState[] = [];
  const master = await openMaster({
    ...{ host: "127.0.0.1", port: more.port ?? 0, token, nodes: 3, said: { "num-nodes": "3", steps: "20" } },
    admit: (rank) => ({ job: "exp1", connection: `{"for":${rank}}`, tunnel: true, capacity: `rollout=${rank}` }),
    broker: more.broker ?? null,
    ...{ clock: systemClock(), logger: silentLogger, onNews: (line: string) => void news.push(line) },
    onChange: (seen) => {
      ranks = [...seen.ranks];
    },
  });
  closing.push(() => master.end({ outcome: "interrupted", reason: "" }));
  return { master, news, ranks: () => ranks };
}

function asking(
  port: number,
  more: Partial<JoinOptions> = {},
): { readonly options: JoinOptions; readonly news: string[] } {
  const news: string[] = [];
  const controller = new AbortController();
  closing.push(() => controller.abort(new Error("the test is over")));
  const options: JoinOptions = {
    ...{ host: "127.0.0.1", port, token, rank: 1, said: { "num-nodes": "3" }, timeoutMs: 20_000 },
    ...{ clock: systemClock(), signal: controller.signal, onNews: (line) => void news.push(line) },
    ...more,
  };
  return { options, news };
}

/** A server on a free port. */
async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  return (server.address() as { readonly port: number }).port;
}

describe("a rank with the token", () => {
  test("gets job, keys and its share, is told how the job ended, and is missing when it left", async () => {
    const { master, news, ranks } = await opened();
    const one = await join(asking(master.port).options);
    expect(one.admission).toEqual({ job: "exp1", connection: '{"for":1}', tunnel: true, capacity: "rollout=1" });
    expect(news.at(-1)).toMatch(/^\+ rank 1 joined from .*; missing: 2$/);
    const two = await join(asking(master.port, { rank: 2 }).options);
    expect(news.at(-1)).toMatch(/all ranks are there/);
    two.leave();
    await expect.poll(() => ranks().filter(({ host }) => host === null)).toMatchObject([{ rank: 2 }]);
    expect(news.at(-1)).toMatch(/^- rank 2 .* left: .*; missing: 2$/);
    await master.end({ outcome: "done", reason: "" });
    expect(await one.over).toEqual({ kind: "ended", outcome: "done", reason: "" });
  });

  test("that comes before its master says whom it waits for, and is let in when it is there", async () => {
    const port = await listening(createServer());
    await closing.pop()?.();
    const { options, news } = asking(port);
    const joining = join(options);
    await expect.poll(() => news[0]).toMatch(/^rank 1 waits for the master at 127\.0\.0\.1:\d+ \(connect ECONNREFUSED/);
    await opened({ port });
    expect((await joining).admission.job).toBe("exp1");
  });

  test("whose master never comes gives up at its deadline", async () => {
    const port = await listening(createServer());
    await closing.pop()?.();
    await expect(join(asking(port, { timeoutMs: 300 }).options)).rejects.toThrow(/no master at .* within 0.3 s/);
  });

  test("that another process holds waits for its end, and takes its place", async () => {
    const { master } = await opened();
    const first = await join(asking(master.port).options);
    const { options, news } = asking(master.port);
    const second = join(options);
    await expect.poll(() => news[0]).toMatch(/rank 1 is held by .* already/);
    first.leave();
    expect((await second).admission.capacity).toBe("rollout=1");
  });

  test.each([
    [{ rank: 3 }, /rank 3 is none of 3; use --worker 1 to 2/],
    [{ said: { "num-nodes": "4" } }, /--num-nodes is 4 here and 3 at the master/],
    [{ said: { steps: "21" } }, /--steps is 21 here and 20 at the master/],
  ])("that says %j is told what is wrong, and the master as well", async (more, message) => {
    const { master, news, ranks } = await opened();
    await expect(join(asking(master.port, more).options)).rejects.toThrow(message);
    expect(news.join()).toMatch(message);
    expect(ranks().filter(({ host }) => host !== null)).toHaveLength(1);
  });
});

describe("strangers", () => {
  test("another token is refused at once, and the master goes on", async () => {
    const { master, news } = await opened();
    const wrong = asking(master.port, { token: "another token of at least 32 characters" });
    await expect(join(wrong.options)).rejects.toThrow(/has another join token/);
    await expect
      .poll(() => news[0])
      .toMatch(/^! a connection from .*127\.0\.0\.1 was refused: it has not the join token/);
    expect((await join(asking(master.port).options)).admission.job).toBe("exp1");
  });

  test("that leave before they have shown anything are not taken for some with another token", async () => {
    const { master, news } = await opened();
    const early = connect(master.port, "127.0.0.1");
    await new Promise<void>((resolve) => early.once("connect", () => early.end(resolve)));
    await new Promise((resolve) => early.resume().once("close", resolve));
    await join(asking(master.port).options);
    expect(news).toEqual([expect.stringMatching(/^\+ rank 1 joined/)]);
  });

  test("what speaks no TLS gets nothing, and a rank that meets such a server is told", async () => {
    const { master } = await opened();
    const stranger = connect(master.port, "127.0.0.1");
    const heard: Buffer[] = [];
    stranger.on("data", (chunk) => heard.push(chunk)).on("error", () => {});
    stranger.write('{"want":"join","v":1,"rank":1,"host":"x","said":{}}\n');
    await new Promise((resolve) => stranger.once("close", resolve));
    expect(Buffer.concat(heard).toString()).not.toMatch(/exp1|kind/);
    const port = await listening(createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")));
    await expect(join(asking(port).options)).rejects.toThrow(/is no master of muster/);
  });
});

describe("the way to the broker", () => {
  test("leads bytes both ways, whatever their size, and ends when either side does", async () => {
    const sockets: Socket[] = [];
    const echo = createServer((socket) => {
      sockets.push(socket);
      socket.pipe(socket);
    });
    const port = await listening(echo);
    const { master } = await opened({ broker: { host: "127.0.0.1", port } });
    const tunnel = await openTunnel({ host: "127.0.0.1", port: master.port, token });
    closing.push(() => tunnel.close());
    const near = connect(Number(new URL(tunnel.url).port), "127.0.0.1");
    const sent = Buffer.alloc(3_000_000, "muster ");
    let heard = 0;
    const all = new Promise<void>((resolve) =>
      near.on("data", (chunk) => {
        heard += chunk.length;
        if (heard === sent.length) resolve();
      }),
    );
    near.write(sent);
    await all;
    const over = new Promise((resolve) => near.once("close", resolve));
    sockets[0]?.destroy();
    await over;
  });

  test("without the token leads nowhere", async () => {
    const reached: Socket[] = [];
    const port = await listening(createServer((socket) => void reached.push(socket)));
    const { master } = await opened({ broker: { host: "127.0.0.1", port } });
    const tunnel = await openTunnel({ host: "127.0.0.1", port: master.port, token: "f".repeat(40) });
    closing.push(() => tunnel.close());
    const near = connect(Number(new URL(tunnel.url).port), "127.0.0.1").on("error", () => {});
    await new Promise((resolve) => near.once("close", resolve));
    expect(reached).toEqual([]);
  });
});
