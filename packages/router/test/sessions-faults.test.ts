/** Sessions when something goes wrong at the worst moment: nobody gets a torn answer, two answers, or a session that is stuck. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { SessionFiles } from "../src/sessions/session-files.ts";
import { openRouter, startEngine } from "./support/open-router.ts";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-sessions-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

async function filesIn(directory: string, limits: object = {}): Promise<SessionFiles> {
  const files = await SessionFiles.open(directory, { sessionsMax: 1_000, bytesMax: 1e6, ...limits });
  onTestFinished(() => files.close());
  return files;
}

const begin = (atMs = Date.now()) => ({ kind: "begin", atMs, metadata: {} }) as const;
function writeRecord(directory: string, id: string, record: object): void {
  const json = JSON.stringify(record);
  writeFileSync(join(directory, `${id}.jsonl`), `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`);
}

const turnAt = (id: string) => `/sessions/${id}/v1/chat/completions`;
const bodyOf = (content: string, more: object = {}) => ({ messages: [{ role: "user", content }], ...more });

test("a session whose first record was cut off is not there, and begins when it is asked for again", async () => {
  const sessions = folder();
  writeFileSync(join(sessions, "a.jsonl"), '00000000 {"kind":"beg');
  const { ask } = await openRouter([await startEngine()], {}, { sessions });
  expect((await ask(turnAt("a"), bodyOf("one"))).status).toBe(404);
  expect((await ask("/sessions", { session_id: "a", metadata: { task: 3 } })).status).toBe(200);
  expect((await ask(turnAt("a"), bodyOf("one"))).status).toBe(200);
  expect(await (await ask("/sessions/a")).json()).toMatchObject({ metadata: { task: 3 }, turns: 1, ended: null });
});

test("who begins a session at the same time as somebody else hears of it once it is on the disk", async () => {
  const directory = folder();
  const files = await filesIn(directory);
  void files.begin("a", begin());
  await files.begin("a", begin());
  expect(readFileSync(join(directory, "a.jsonl"), "utf8").split("\n")).toHaveLength(2);
});

test("a session that could not begin takes no place", async () => {
  const directory = folder();
  const files = await filesIn(directory, { sessionsMax: 1 });
  mkdirSync(join(directory, "a.jsonl"));
  await expect(files.begin("a", begin())).rejects.toThrow("EISDIR");
  await files.begin("b", begin());
});

test("a response that its engine gave up is no answer: it is not recorded, and drawn anew when it is asked for again", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine], {}, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  engine.finish = "abort";
  const given = await ask(turnAt("a"), bodyOf("one"));
  expect([given.status, given.headers.get("retry-after")]).toEqual([503, "1"]);
  engine.finish = "stop";
  expect(await (await ask(turnAt("a"), bodyOf("one"))).json()).toMatchObject({ choices: [{ finish_reason: "stop" }] });
});

test("an engine that answers a turn with a stream, and breaks it off, ends the turn with an error", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine], {}, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  Object.assign(engine, { streamsAnyway: true, mode: "error in the stream" });
  expect((await ask(turnAt("a"), bodyOf("one"))).status).toBe(502);
  Object.assign(engine, { streamsAnyway: false, mode: "ok" });
  expect((await ask(turnAt("a"), bodyOf("one"))).status).toBe(200);
});

test("an answer without an end is cut off at the length that answers may have", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine], { attempt: { answerBytesMax: 100_000 } }, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  engine.mode = "endless answer";
  const answer = await ask(turnAt("a"), bodyOf("one"));
  expect([answer.status, await answer.json()]).toMatchObject([
    502,
    { error: { message: expect.stringContaining("longer than 100000 bytes") } },
  ]);
});

test("a session ends also when it is full, and when many ask at the moment in which it ends", async () => {
  const directory = folder();
  writeRecord(directory, "a", begin(1_000));
  const bytesMax = statSync(join(directory, "a.jsonl")).size + 10;
  const { ask } = await openRouter([], { sessions: { bytesMax } }, { sessions: directory });
  const paths = ["/sessions/a", "/sessions/a/trace", "/sessions/a", "/sessions/a/trace"];
  const answers = await Promise.all(paths.map(async (path) => await (await ask(path)).json()));
  expect(answers).toMatchObject(paths.map(() => ({ ended: "idle" })));
});

test("a session is in use as long as a turn is drawn", async () => {
  const engine = await startEngine({ latencyMs: 2_000 });
  const { ask } = await openRouter([engine], { sessions: { idleMs: 1_000 } }, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  let isDrawn = false;
  const drawing = ask(turnAt("a"), bodyOf("one")).finally(() => {
    isDrawn = true;
  });
  while (!isDrawn) expect(await (await ask("/sessions/a")).json()).toMatchObject({ ended: null });
  expect((await drawing).status).toBe(200);
});

test("turns that are asked for all at once are no more than a session may have", async () => {
  const engine = await startEngine({ latencyMs: 100 });
  const { ask } = await openRouter([engine], { sessions: { turnsMax: 2 } }, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  const contents = ["one", "two", "three", "four", "five"];
  const answers = await Promise.all(contents.map((content) => ask(turnAt("a"), bodyOf(content))));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 409, 409, 409]);
  expect(engine.requests).toHaveLength(2);
});

test("the same words with another demand on weights are another request, however the demand is made", async () => {
  const engine = await startEngine({ version: "7" });
  const opened = await openRouter([engine], {}, { sessions: folder() });
  const { ask } = opened;
  await ask("/sessions", { session_id: "a" });
  await ask(turnAt("a"), bodyOf("one"));
  engine.version = "8";
  const wanted = { "x-muster-min-weight-version": "8" };
  await opened.until("version 8", (workers) => workers.every(({ version }) => version === "8"));
  for (const _ of [1, 2])
    expect(await (await ask(turnAt("a"), bodyOf("one"), wanted)).json()).toMatchObject({
      metadata: { weight_version: "8" },
    });
  expect(engine.requests).toHaveLength(2);
});

test("a turn has a seed of its own when its request says that it has none", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine], {}, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  await ask(turnAt("a"), bodyOf("one", { seed: null }));
  expect(engine.requests[0]?.body.seed).toEqual(expect.any(Number));
});

test("a session that is removed leaves no file, whatever is written at that moment", async () => {
  const directory = folder();
  const files = await filesIn(directory);
  for (let ticks = 0; ticks < 16; ticks++) {
    const id = `${ticks}`;
    await files.begin(id, begin());
    const removed = files.remove(id);
    for (let i = 0; i < ticks; i++) await new Promise(setImmediate);
    await Promise.allSettled([removed, files.append(id, { kind: "reward", atMs: 0, reward: 1 })]);
  }
  expect(readdirSync(directory)).toEqual([]);
});

test("nothing is written once the folder is given back to the next router", async () => {
  const directory = folder();
  const files = await filesIn(directory);
  await files.begin("a", begin());
  await files.close();
  await expect(files.append("a", { kind: "reward", atMs: 0, reward: 1 })).rejects.toThrow("about to end");
});

/** Sessions whose bytes let some sixteen of them stay in memory. */
async function crowdedFiles(): Promise<{ files: SessionFiles; oldest: string; others: readonly string[] }> {
  const directory = folder();
  const ids = Array.from({ length: 20 }, (_, i) => `s${i}`);
  for (const id of ids) writeRecord(directory, id, { ...begin(), metadata: { text: "x".repeat(900) } });
  const [oldest = "", ...others] = ids;
  return { files: await filesIn(directory, { bytesMax: 2_000 }), oldest, others };
}
const rewarded = (reward: number) => ({ kind: "reward", atMs: Date.now(), reward }) as const;

test("a session that is written to at the moment in which it would be forgotten stays one session", async () => {
  const { files, oldest, others } = await crowdedFiles();
  for (let ticks = 0; ticks < 12; ticks++) {
    await files.read(oldest);
    for (const id of others.slice(1)) await files.read(id);
    void files.read(others[0] as string);
    for (let i = 0; i < ticks; i++) await null;
    const written = await files.append(oldest, rewarded(ticks));
    expect(await files.read(oldest)).toBe(written);
  }
});

test("a session that is being written to stays, however many others are read meanwhile", async () => {
  const { files, oldest, others } = await crowdedFiles();
  for (const id of [...others, oldest]) await files.read(id);
  const rewards = Array.from({ length: 12 }, (_, i) => i + 1);
  const written = Promise.all(rewards.map((reward) => files.append(oldest, rewarded(reward))));
  // Some of them are in memory, and the others take the place of what was used longest ago.
  await Promise.all(others.map((id) => files.read(id)));
  const then = files.read(oldest);
  const last = (await written).at(-1);
  expect([last?.reward, (await then).reward, await files.read(oldest)]).toEqual([12, expect.any(Number), last]);
  expect(await files.append(oldest, rewarded(13))).toBe(await files.read(oldest));
});

test.each([
  ["20 sessions of a bound for 8", 20, 900, 1_000, 9],
  ["20 sessions of a bound for 8, the one asked for first read last", 20, 4e6, 1_000, 9],
  ["260 small sessions", 260, 900, 1e6, 256],
])("sessions in memory are bounded by their bytes and their number: %s", async (_, count, first, bytesMax, most) => {
  const directory = folder();
  const ids = Array.from({ length: count }, (_, i) => `s${i}`);
  for (const [i, id] of ids.entries())
    writeRecord(directory, id, { ...begin(), metadata: { text: "x".repeat(i === 0 ? first : 900) } });
  const files = await filesIn(directory, { bytesMax });
  const sessions = await Promise.all(ids.map((id) => files.read(id)));
  const again = await Promise.all([...ids].reverse().map((id) => files.read(id)));
  const kept = again.reverse().filter((one, i) => one === sessions[i]);
  expect(kept.length).toBeLessThanOrEqual(most);
});
