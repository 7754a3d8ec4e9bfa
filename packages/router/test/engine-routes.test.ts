/** The engine routes stand in front of the framework: a hostile request must hear there what it hears behind it. */
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openRouter, startEngine } from "./support/open-router.ts";

const inference = "i".repeat(40);
const admin = "a".repeat(40);
const json = "content-type: application/json";
const bearer = (token: string): string => `authorization: Bearer ${token}`;
const bodyOf = (bytes: number): readonly string[] => [`content-length: ${bytes}`, "", "x".repeat(bytes)];

/** A route in front, and one of the framework that asks for the same token. */
const routes = ["/generate", "/sessions"] as const;

async function openBoth(): Promise<number> {
  const sessions = await mkdtemp(join(tmpdir(), "muster-front-"));
  onTestFinished(() => rm(sessions, { recursive: true, force: true }));
  const { router } = await openRouter(
    [await startEngine()],
    { http: { bodyBytesMax: 1_000, bodiesBytesMax: 1_500 } },
    { inference, admin, sessions },
  );
  return router.port;
}

/** What a server says to this text, up to the end of the connection or of the one answer. */
function said(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text, "latin1"));
    let all = "";
    const whole = (): boolean => {
      const length = /content-length: (\d+)/i.exec(all)?.[1];
      const at = all.indexOf("\r\n\r\n");
      return length !== undefined && at >= 0 && all.length >= at + 4 + Number(length);
    };
    socket.on("data", (chunk) => {
      all += chunk;
      if (whole()) socket.destroy();
    });
    socket.on("close", () => resolve(all));
    socket.on("error", reject);
  });
}

/** Status, headers without the time, and body. */
function factsOf(answer: string): object {
  const [head = "", body = ""] = answer.split("\r\n\r\n", 2);
  const [status = "", ...lines] = head.split("\r\n");
  const headers = lines.map((line) => line.toLowerCase()).filter((line) => !line.startsWith("date:"));
  return { status, headers: headers.sort(), body };
}

test.each([
  ["a name of the web as its host", 421, ["host: evil.example", json, ...bodyOf(2)]],
  ["the origin of a page", 403, ["host: 127.0.0.1", "origin: http://127.0.0.1", json, ...bodyOf(2)]],
  ["another site's page", 403, ["host: 127.0.0.1", "sec-fetch-site: cross-site", json, ...bodyOf(2)]],
  ["no token", 401, ["host: 127.0.0.1", json, ...bodyOf(2)]],
  ["an unknown token", 401, ["host: 127.0.0.1", bearer("x".repeat(40)), json, ...bodyOf(2)]],
  ["two tokens", 401, ["host: 127.0.0.1", bearer("x".repeat(40)), bearer(inference), json, ...bodyOf(2)]],
  ["the token of the admin", 403, ["host: 127.0.0.1", bearer(admin), json, ...bodyOf(2)]],
  ["text", 415, ["host: 127.0.0.1", bearer(inference), "content-type: text/plain", ...bodyOf(2)]],
  ["a kind of content that is none", 415, ["host: 127.0.0.1", bearer(inference), "content-type: json", ...bodyOf(2)]],
  ["no kind of content", 415, ["host: 127.0.0.1", bearer(inference), ...bodyOf(2)]],
  ["a body that is announced too long", 413, ["host: 127.0.0.1", bearer(inference), json, ...bodyOf(1_001)]],
  [
    "a body that gets too long",
    413,
    [
      "host: 127.0.0.1",
      bearer(inference),
      json,
      "transfer-encoding: chunked",
      "",
      `3e9\r\n${"x".repeat(1_001)}\r\n0\r\n\r\n`,
    ],
  ],
  ["a body that is not JSON", 400, ["host: 127.0.0.1", bearer(inference), `${json}; charset=utf-8`, ...bodyOf(2)]],
  ["no host", 400, [bearer(inference), json, ...bodyOf(2)]],
  [
    "two lengths",
    400,
    ["host: 127.0.0.1", bearer(inference), json, "content-length: 2", "content-length: 3", "", "{} "],
  ],
  [
    "a length and pieces",
    400,
    ["host: 127.0.0.1", bearer(inference), json, "content-length: 2", "transfer-encoding: chunked", "", "0\r\n\r\n"],
  ],
  ["long headers", 431, ["host: 127.0.0.1", `x-pad: ${"x".repeat(20_000)}`, json, ...bodyOf(2)]],
] as const)("a request with %s is answered %i by both routes, word for word alike", async (_, status, lines) => {
  const port = await openBoth();
  const [front, behind] = await Promise.all(
    routes.map((path) => said(port, [`POST ${path} HTTP/1.1`, ...lines].join("\r\n"))),
  );
  expect(front).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  // A body that is no JSON is found by each route itself, which says what it wants.
  const shown = (answer = "") => (status === 400 ? answer.split("\r\n", 1)[0] : factsOf(answer));
  expect(shown(front)).toEqual(shown(behind));
});

test("an engine route is a path and a method: a query changes nothing, and everything else is not known", async () => {
  const port = await openBoth();
  const body = '{"input_ids":[1]}';
  const ask = (line: string, token: string): Promise<string> => {
    const head = [`${line} HTTP/1.1`, "host: 127.0.0.1", bearer(token), json, `content-length: ${body.length}`];
    return said(port, [...head, "", body].join("\r\n"));
  };
  expect(await ask("POST /generate?trace=1", inference)).toMatch(/^HTTP\/1.1 200 /);
  for (const line of ["PUT /generate", "POST /generate/", "POST /generate2", "POST /Generate"])
    expect(await ask(line, admin)).toMatch(/^HTTP\/1.1 404 /);
});

test("a request in line behind another on its connection leaves nothing behind when the connection breaks", async () => {
  const sessions = await mkdtemp(join(tmpdir(), "muster-front-"));
  onTestFinished(() => rm(sessions, { recursive: true, force: true }));
  const engine = await startEngine();
  const { router } = await openRouter(
    [engine],
    { http: { bodyBytesMax: 1_000, bodiesBytesMax: 1_500 } },
    { inference, admin, sessions },
  );
  const warned: Error[] = [];
  const warn = (warning: Error): void => void warned.push(warning);
  process.on("warning", warn);
  onTestFinished(() => void process.off("warning", warn));
  const requestOf = (path: string, body: string): string =>
    [
      `POST ${path} HTTP/1.1`,
      "host: 127.0.0.1",
      bearer(inference),
      json,
      `content-length: ${body.length}`,
      "",
      body,
    ].join("\r\n");
  const padded = (bytes: number): string => '{"input_ids":[1]}'.padEnd(bytes);
  for (const path of [...routes, ...routes]) {
    engine.mode = "hang";
    const asked = engine.requests.length;
    const socket = connect(router.port, "127.0.0.1");
    const small = Array.from({ length: 20 }, () => requestOf("/generate", padded(17)));
    socket.write([requestOf("/generate", padded(20)), requestOf(path, padded(1_000)), ...small].join(""));
    await vi.waitUntil(() => engine.requests.length >= asked + 21, 5_000);
    socket.destroy();
    await vi.waitUntil(() => router.pending() === 0, 5_000);
    engine.mode = "ok";
    expect(await said(router.port, requestOf("/generate", padded(900)))).toMatch(/^HTTP\/1.1 200 /);
  }
  expect(warned).toEqual([]);
});
