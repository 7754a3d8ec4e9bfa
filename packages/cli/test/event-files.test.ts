import { appendFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { EventMessage } from "@muster/client";
import { makeTempDirectory } from "@muster/testkit";
import { describe, expect, it, onTestFinished } from "vitest";
import { EventFiles } from "../src/run/event-files.ts";
import { readEvents } from "../src/run/read-events.ts";

const noon = Date.parse("2026-01-02T12:00:00Z");

function eventOf(kind: string, body: object, afterMs = 0): EventMessage {
  return { kind, body, from: "controller", term: 1, sentAtMs: noon + afterMs } as EventMessage;
}

const by = { from: "controller", term: 1 };
const started = eventOf("job.started", { term: 1 });
const drained = eventOf("command.accepted", { kind: "replica.drain", by: "operator" }, 500);

interface Folder {
  readonly path: string;
}

async function runDirectory(): Promise<Folder> {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  return { path };
}

const attempt = (_: string, write: () => void): boolean => {
  write();
  return true;
};
const filesIn = ({ path }: Folder) =>
  new EventFiles({ directory: path, attempt, bytesMax: 1024 ** 2, onDropped: () => {} });

/** A place in the stream, and a time. */
const at = (seq: number, atMs = 1) => ({ seq, atMs });

async function linesOf(directory: Folder, name: string): Promise<unknown[]> {
  const text = await readFile(join(directory.path, name), "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

it("each event is a line with its time, and what operators asked for is a line of the audit, too", async () => {
  const directory = await runDirectory();
  const files = filesIn(directory);
  files.add(started, at(1, 3.4));
  files.add(drained, at(2, 503.4));
  const sum = expect.stringMatching(/^[0-9a-f]{16}$/);
  expect(await linesOf(directory, "events.jsonl")).toEqual([
    { seq: 1, at: "2026-01-02T12:00:00.000Z", ...by, kind: "job.started", body: { term: 1 }, at_ms: 3, sum },
    { seq: 2, at: "2026-01-02T12:00:00.500Z", ...by, kind: "command.accepted", body: drained.body, at_ms: 503, sum },
  ]);
  expect(await linesOf(directory, "audit.jsonl")).toEqual([
    { seq: 2, at: "2026-01-02T12:00:00.500Z", ...by, kind: "command.accepted", body: drained.body, at_ms: 503, sum },
  ]);
});

it("a run that goes on writes both files anew, because the broker gives it all events again", async () => {
  const directory = await runDirectory();
  const before = filesIn(directory);
  for (const [i, event] of [started, drained].entries()) before.add(event, at(1 + i, 70));
  const after = filesIn(directory);
  const all = [started, drained, eventOf("job.ended", { outcome: "completed" }, 900)];
  for (const [i, event] of all.entries()) after.add(event, at(1 + i));
  expect(await linesOf(directory, "events.jsonl")).toHaveLength(3);
  expect(await linesOf(directory, "audit.jsonl")).toHaveLength(1);
  expect((await readdir(directory.path)).filter((name) => /\.\d/.test(name))).toEqual([]);
});

it("events that the broker has no more stay in files of their own, each time", async () => {
  const directory = await runDirectory();
  filesIn(directory).add(drained, at(1));
  filesIn(directory).add(started, at(1));
  const again = eventOf("job.started", { term: 1 }, 60_000);
  filesIn(directory).add(again, at(1));
  expect(await linesOf(directory, "events.1.jsonl")).toMatchObject([{ kind: "command.accepted" }]);
  expect(await linesOf(directory, "audit.1.jsonl")).toMatchObject([{ kind: "command.accepted" }]);
  expect(await linesOf(directory, "events.2.jsonl")).toMatchObject([{ kind: "job.started", body: { term: 1 } }]);
  expect(await linesOf(directory, "events.jsonl")).toMatchObject([{ at: "2026-01-02T12:01:00.000Z" }]);
});

it("a run that is refused before anything happens touches neither", async () => {
  const directory = await runDirectory();
  filesIn(directory).add(started, at(1));
  filesIn(directory);
  expect(await linesOf(directory, "events.jsonl")).toHaveLength(1);
});

it("the events of all files come back in order, as they were said, and a line that was cut is none", async () => {
  const directory = await runDirectory();
  const said = (event: typeof started, from: string) => ({ ...event, from, term: 2 }) as typeof started;
  filesIn(directory).add(said(drained, "controller"), { seq: 7, atMs: 1 });
  const later = eventOf("job.started", { term: 1 }, 1_000);
  filesIn(directory).add(said(later, "controller-1"), { seq: 1, atMs: 2 });
  await appendFile(join(directory.path, "events.jsonl"), '{"seq":2,"at":"2026-');
  expect([...readEvents(directory.path)]).toEqual([
    { seq: 7, atMs: 1, event: { ...said(drained, "controller") } },
    { seq: 1, atMs: 2, event: { ...said(later, "controller-1") } },
  ]);
});

describe("a job whose broker no longer has the first events", () => {
  const numbered = (seq: number) => eventOf(seq % 5 === 0 ? "command.done" : "alarm.raised", { seq }, 1_000 * seq);

  it("goes on in the same files: what the broker tells again is written again, what it has no more stays", async () => {
    const directory = await runDirectory();
    const before = filesIn(directory);
    for (let seq = 1; seq <= 12; seq++) before.add(numbered(seq), at(seq, 100 * seq));
    const whole = await readFile(join(directory.path, "events.jsonl"), "utf8");
    const audit = await readFile(join(directory.path, "audit.jsonl"), "utf8");
    await appendFile(join(directory.path, "events.jsonl"), '{"seq":13,"at":"2026-');
    const after = filesIn(directory);
    expect(after.begin(numbered(8), 8)).toBe(800);
    for (let seq = 8; seq <= 12; seq++) after.add(numbered(seq), at(seq, 100 * seq));
    expect(await readFile(join(directory.path, "events.jsonl"), "utf8")).toBe(whole);
    expect(await readFile(join(directory.path, "audit.jsonl"), "utf8")).toBe(audit);
    expect((await readdir(directory.path)).sort()).toEqual(["audit.jsonl", "changes.jsonl", "events.jsonl"]);
  });

  it("keeps the commands of a store that was lost, whatever the next one tells", async () => {
    const directory = await runDirectory();
    const [first, second, third] = [filesIn(directory), filesIn(directory), filesIn(directory)];
    for (let seq = 1; seq <= 6; seq++) first.add(numbered(seq), at(seq));
    for (const files of [second, third]) files.add(started, at(1));
    expect(await linesOf(directory, "audit.1.jsonl")).toMatchObject([{ seq: 5 }]);
    expect(await linesOf(directory, "events.1.jsonl")).toHaveLength(6);
    expect(await linesOf(directory, "events.jsonl")).toHaveLength(1);
  });

  it("is told once where two files have the same events", async () => {
    const directory = await runDirectory();
    const [before, after] = [filesIn(directory), filesIn(directory)];
    for (let seq = 1; seq <= 4; seq++) before.add(numbered(seq), at(seq));
    // Another event in the place of the third: not what the files have, so they stay as they are.
    for (const [seq, event] of [
      [3, started],
      [4, numbered(4)],
      [5, numbered(5)],
    ] as const)
      after.add(event, at(seq));
    expect([...readEvents(directory.path)].map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
  });
});
