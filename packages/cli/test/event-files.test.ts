import { appendFile, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { EventMessage } from "@muster/client";
import { makeTempDirectory } from "@muster/testkit";
import { expect, it, onTestFinished } from "vitest";
import { EventFiles } from "../src/run/event-files.ts";
import { readEvents } from "../src/run/read-events.ts";
import { openRunDirectory, type RunDirectory } from "../src/run/run-directory.ts";

const noon = Date.parse("2026-01-02T12:00:00Z");

function eventOf(kind: string, body: object, afterMs = 0): EventMessage {
  return { kind, body, sentAtMs: noon + afterMs } as EventMessage;
}

const started = eventOf("job.started", { term: 1 });
const drained = eventOf("command.accepted", { kind: "replica.drain", by: "operator" }, 500);

async function runDirectory(): Promise<RunDirectory> {
  const { path, remove } = await makeTempDirectory();
  onTestFinished(remove);
  await mkdir(join(path, "runs"));
  const directory = openRunDirectory(join(path, "runs"), "job");
  onTestFinished(() => directory.release());
  return directory;
}

/** A place in the stream; only the time matters here. */
const at = (atMs: number) => ({ seq: 1, atMs });

async function linesOf(directory: RunDirectory, name: string): Promise<unknown[]> {
  const text = await readFile(join(directory.path, name), "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

it("each event is a line with its time, and what operators asked for is a line of the audit, too", async () => {
  const directory = await runDirectory();
  const files = new EventFiles(directory);
  files.add(started, at(3.4));
  files.add(drained, at(503.4));
  const sum = expect.stringMatching(/^[0-9a-f]{16}$/);
  expect(await linesOf(directory, "events.jsonl")).toEqual([
    { seq: 1, at: "2026-01-02T12:00:00.000Z", kind: "job.started", body: { term: 1 }, at_ms: 3, sum },
    { seq: 1, at: "2026-01-02T12:00:00.500Z", kind: "command.accepted", body: drained.body, at_ms: 503, sum },
  ]);
  expect(await linesOf(directory, "audit.jsonl")).toEqual([
    { at: "2026-01-02T12:00:00.500Z", kind: "command.accepted", body: drained.body },
  ]);
});

it("a run that goes on writes both files anew, because the broker gives it all events again", async () => {
  const directory = await runDirectory();
  const before = new EventFiles(directory);
  for (const event of [started, drained]) before.add(event, at(70));
  const after = new EventFiles(directory);
  for (const event of [started, drained, eventOf("job.ended", { outcome: "completed" }, 900)]) after.add(event, at(1));
  expect(await linesOf(directory, "events.jsonl")).toHaveLength(3);
  expect(await linesOf(directory, "audit.jsonl")).toHaveLength(1);
  expect((await readdir(directory.path)).filter((name) => /\.\d/.test(name))).toEqual([]);
});

it("events that the broker has no more stay in files of their own, each time", async () => {
  const directory = await runDirectory();
  new EventFiles(directory).add(drained, at(1));
  new EventFiles(directory).add(started, at(1));
  const again = eventOf("job.started", { term: 1 }, 60_000);
  new EventFiles(directory).add(again, at(1));
  expect(await linesOf(directory, "events.1.jsonl")).toMatchObject([{ kind: "command.accepted" }]);
  expect(await linesOf(directory, "audit.1.jsonl")).toMatchObject([{ kind: "command.accepted" }]);
  expect(await linesOf(directory, "events.2.jsonl")).toMatchObject([{ kind: "job.started", body: { term: 1 } }]);
  expect(await linesOf(directory, "events.jsonl")).toMatchObject([{ at: "2026-01-02T12:01:00.000Z" }]);
});

it("a run that is refused before anything happens touches neither", async () => {
  const directory = await runDirectory();
  new EventFiles(directory).add(started, at(1));
  new EventFiles(directory);
  expect(await linesOf(directory, "events.jsonl")).toHaveLength(1);
});

it("the events of all files come back in order, as they were said, and a line that was cut is none", async () => {
  const directory = await runDirectory();
  const said = (event: typeof started, from: string) => ({ ...event, from, term: 2 }) as typeof started;
  new EventFiles(directory).add(said(drained, "controller"), { seq: 7, atMs: 1 });
  new EventFiles(directory).add(said(started, "controller-1"), { seq: 1, atMs: 2 });
  await appendFile(join(directory.path, "events.jsonl"), '{"seq":2,"at":"2026-');
  expect([...readEvents(directory.path)]).toEqual([
    { seq: 7, event: { ...said(drained, "controller") } },
    { seq: 1, event: { ...said(started, "controller-1") } },
  ]);
});
