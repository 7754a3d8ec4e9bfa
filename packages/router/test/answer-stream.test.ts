/** One client's stream: its own pace, its end, and who waits for nothing. */
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test } from "vitest";
import { chatEvents } from "../src/core/chat-events.ts";
import { sendAnswer } from "../src/routes/answer-stream.ts";
import { GrowingAnswer } from "../src/routes/growing-answer.ts";

const quick = { stallMs: 60_000, pingMs: 60_000 };
const answerOf = (content: string) => ({ id: "c", choices: [{ message: { content }, finish_reason: "stop" }] });

/** A client of its own, whose end of the stream is given. */
async function clientOf(): Promise<{ readonly client: ServerResponse; readonly reader: Promise<IncomingMessage> }> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const asked = new Promise<ServerResponse>((resolve) => server.once("request", (_, response) => resolve(response)));
  const { port } = server.address() as AddressInfo;
  const reader = new Promise<IncomingMessage>((resolve) => get({ port, host: "127.0.0.1" }, resolve));
  return { client: await asked, reader };
}

async function allOf(reader: IncomingMessage): Promise<string> {
  let all = "";
  for await (const chunk of reader.setEncoding("utf8")) all += chunk;
  return all;
}

test("a slow client gets all that was said, in fewer events, and nothing is kept for it but what all share", async () => {
  const { client, reader } = await clientOf();
  const growing = new GrowingAnswer();
  growing.grow({ id: "c" }, "");
  const sent = sendAnswer(client, growing, chatEvents({}), quick);
  const piece = "x".repeat(64 * 1024);
  const count = 128;
  let end = (_: Record<string, unknown>): void => {};
  growing.follow(
    new Promise((resolve) => {
      end = resolve;
    }),
  );
  const slow = await reader;
  for (let i = 0; i < count; i++) {
    growing.grow({ id: "c" }, piece);
    await new Promise((done) => setImmediate(done));
  }
  // It has read nothing: of 8 MiB the response holds the one part that did not fit into the socket.
  expect(client.writableLength).toBeLessThan(6 * 1024 ** 2);
  end(answerOf(piece.repeat(count)));
  const all = await allOf(slow);
  expect(await sent).toBeNull();
  expect(all.length).toBeGreaterThan(piece.length * count);
  expect(all.replaceAll(/x{1000}/g, "").length).toBeLessThan(piece.length);
  expect(all.split("\n\n").length).toBeLessThan(count);
});

test("a client that takes nothing is cut off, and others of the same answer are not held up", async () => {
  const [stalled, other] = [await clientOf(), await clientOf()];
  const growing = new GrowingAnswer();
  growing.grow({ id: "c" }, "y".repeat(32 * 1024 ** 2));
  const cut = sendAnswer(stalled.client, growing, chatEvents({}), { ...quick, stallMs: 50 });
  const sent = sendAnswer(other.client, growing, chatEvents({}), quick);
  const read = allOf(await other.reader);
  expect(await cut).toBeNull();
  expect(stalled.client.destroyed).toBe(true);
  growing.follow(Promise.resolve(answerOf(growing.pieces.join(""))));
  expect(await sent).toBeNull();
  expect(await read).toContain("[DONE]");
});

test("a client that waits hears pings, and one that leaves ends its stream at once", async () => {
  const { client, reader } = await clientOf();
  const growing = new GrowingAnswer();
  growing.grow({ id: "c" }, "a");
  const sent = sendAnswer(client, growing, chatEvents({}), { ...quick, pingMs: 1 });
  const waiting = await reader;
  let heard = "";
  await new Promise<void>((done) =>
    waiting.setEncoding("utf8").on("data", (chunk) => {
      heard += chunk;
      if (heard.includes(": ping\n\n: ping\n\n")) done();
    }),
  );
  waiting.destroy();
  expect(await sent).toBeNull();
});

test("what fails that nobody is to blame for ends the stream with an error, and is returned for the log", async () => {
  const { client, reader } = await clientOf();
  const growing = new GrowingAnswer();
  growing.grow({ id: "c" }, "a");
  growing.follow(Promise.reject(new Error("disk full")));
  const read = allOf(
    await Promise.all([reader, sendAnswer(client, growing, chatEvents({}), quick)]).then(([r, error]) => {
      expect(error).toMatchObject({ message: "disk full" });
      return r;
    }),
  );
  const all = await read;
  expect([all.includes('"code":"internal"'), all.includes("[DONE]"), all.includes("disk full")]).toEqual([
    true,
    false,
    false,
  ]);
});

test("a stream of a hundred thousand tokens keeps nothing for each of them, but the text", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heldBy = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const { client, reader } = await clientOf();
  const growing = new GrowingAnswer();
  growing.grow({ id: "c" }, "a");
  const sent = sendAnswer(client, growing, chatEvents({}), quick);
  const waiting = await reader;
  const before = heldBy();
  for (let i = 0; i < 100_000; i++) {
    growing.grow({}, "");
    // The reader looks, finds nothing new and waits again.
    for (let turn = 0; turn < 8; turn++) await null;
  }
  expect((heldBy() - before) / 1024 ** 2).toBeLessThan(5);
  waiting.destroy();
  expect(await sent).toBeNull();
});
