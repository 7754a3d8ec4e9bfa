/** Files of events as a run leaves them, and after some damage: what is found, and where. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PublicFact } from "../../src/fact-checker.ts";
import { checkEvents } from "../../src/run/check-events.ts";
import { eventLine } from "../../src/run/event-line.ts";
import { Findings } from "../../src/run/findings.ts";
import { shippedConfig } from "../support/config.ts";

const config = shippedConfig();
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "muster-events-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const alarm = { kind: "alarm.raised", body: { alarm: "capacity", detail: "" } };
const started = { kind: "job.started", body: { term: 1, steps: 9, seed: config.seed } };

interface Event {
  readonly seq: number;
  readonly kind?: string;
  readonly body?: object;
}

/** Lines of a file of events, each with the sum over those before it. */
function linesOf(...events: readonly (Event | number)[]): string[] {
  let sum = "";
  return events.map((event) => {
    const { seq, kind, body } = { ...alarm, ...(typeof event === "number" ? { seq: event } : event) };
    const fields = { seq, at: "2026-01-02T12:00:00.000Z", from: "controller", term: 1, kind, body, at_ms: seq };
    const line = eventLine(fields, sum);
    sum = line.sum;
    return line.text;
  });
}

const unsummed = (lines: readonly string[]): readonly string[] =>
  lines.map((line) => line.replace(/,"sum":"[0-9a-f]+"/, ""));

/** Checks a run with these files of events, the oldest first. */
async function check(...files: readonly (readonly string[])[]) {
  const events = files.map((lines, index) => {
    const name = index === files.length - 1 ? "events.jsonl" : `events.${index + 1}.jsonl`;
    writeFileSync(join(folder, name), lines.map((line) => `${line}\n`).join(""));
    return name;
  });
  return await checkFiles(events);
}

async function checkFiles(events: readonly string[]) {
  const findings = new Findings();
  const heard: (readonly [PublicFact["kind"], boolean])[] = [];
  const onFact = ({ kind }: PublicFact, isLast: boolean): void => void heard.push([kind, isLast]);
  const result = await checkEvents({ path: folder, config, events, isRunning: false }, { findings, onFact });
  const found = findings.list.map(({ rule, file, line, seq, says }) => ({ at: `${rule} ${file}:${line}`, seq, says }));
  return { ...result, found, heard, unchecked: findings.unchecked, notes: findings.notes };
}

describe("events that stand as they were written", () => {
  it("are counted, and nothing is found", async () => {
    const { found, unchecked, notes, ...counts } = await check(linesOf({ seq: 1, ...started }, 2, 3));
    expect({ found, unchecked, notes }).toEqual({ found: [], unchecked: [], notes: [] });
    expect(counts).toMatchObject({ events: 3, terms: 1, commits: 0, isWhole: true });
  });

  it("count once when two files have them, and the later file says what the broker had last", async () => {
    const first = linesOf({ seq: 1, ...started }, 2, 3);
    const { found, events, terms, heard, isWhole } = await check(first, linesOf(2, 3, 4));
    expect({ found, events, terms, isWhole }).toEqual({ found: [], events: 4, terms: 1, isWhole: true });
    expect(heard.filter(([, isLast]) => isLast)).toHaveLength(3);
  });

  it("begin anew where the store of the broker was lost", async () => {
    const { found, events, isWhole, unchecked } = await check(linesOf(1, 2), linesOf(1, 2));
    expect({ found, events, isWhole, unchecked }).toEqual({ found: [], events: 4, isWhole: true, unchecked: [] });
  });

  it("may lack what the broker did not keep, which is then not checked", async () => {
    const late = await check(linesOf(4, 5));
    expect(late).toMatchObject({ found: [], events: 2, isWhole: false });
    expect(late.unchecked).toMatchObject([{ what: "events 1 to 3", why: expect.stringContaining("events.jsonl") }]);
    const between = await check(linesOf(1, 2), linesOf(4));
    expect(between).toMatchObject({ found: [], isWhole: false, unchecked: [{ what: "event 3" }] });
    const next = await check(linesOf(1, 2), linesOf(3));
    expect(next).toMatchObject({ found: [], isWhole: true, unchecked: [] });
  });

  it("may be of kinds that are not known", async () => {
    const dreamt = { kind: "job.dreamt", body: {} };
    const { found, events, unchecked } = await check(linesOf(1, { seq: 2, ...dreamt }, { seq: 3, ...dreamt }));
    expect({ found, events }).toEqual({ found: [], events: 3 });
    expect(unchecked).toMatchObject([{ what: "2 events of kind job.dreamt" }]);
  });
});

describe("what is found in events has its place:", () => {
  it("a fact that does not hold", async () => {
    const other = { ...started, body: { ...started.body, seed: config.seed + 1 } };
    const { found } = await check(linesOf(1, { seq: 2, ...other }));
    expect(found).toMatchObject([{ at: "S33 events.jsonl:2", seq: 2 }]);
  });

  it("a line that is missing, or several", async () => {
    const lines = linesOf(1, 2, 3, 4, 5);
    const one = await check(lines.toSpliced(1, 1));
    expect(one.found).toMatchObject([
      { at: "file events.jsonl:2", seq: 3, says: expect.stringMatching(/^event 2 is missing .* event 1$/) },
    ]);
    expect(one.isWhole).toBe(false);
    const two = await check(lines.toSpliced(2, 2));
    expect(two.found).toMatchObject([
      { at: "file events.jsonl:3", seq: 5, says: expect.stringMatching(/^events 3 to 4 are missing .* event 2$/) },
    ]);
  });

  it("a line that stands there twice, or after later ones", async () => {
    const lines = linesOf(1, 2, 3);
    const twice = await check(lines.toSpliced(1, 0, lines[0] ?? ""));
    expect(twice.found).toEqual([{ at: "file events.jsonl:2", seq: 1, says: "event 1 stands here a second time" }]);
    const early = await check([...lines, lines[0] ?? ""]);
    expect(early.found).toEqual([{ at: "file events.jsonl:4", seq: 1, says: "event 1 stands here after event 3" }]);
    expect(early.events).toBe(3);
  });

  it("a line that was changed, each once", async () => {
    const changed = linesOf(1, 2, 3).map((line) => line.replace('"at_ms":2', '"at_ms":9'));
    const middle = await check(changed);
    expect(middle.found).toMatchObject([{ at: "file events.jsonl:2", says: expect.stringMatching(/after event 1/) }]);
    expect(middle.isWhole).toBe(true);
    const first = await check(linesOf(1, 2).map((line) => line.replace('"at_ms":1', '"at_ms":9')));
    expect(first.found).toMatchObject([
      { at: "file events.jsonl:1", says: expect.stringMatching(/not the first one/) },
    ]);
  });

  it("a line in the middle that is none; what follows it is not compared with it", async () => {
    const { found, isWhole, events } = await check(linesOf(1, 2, 3).with(1, '{"seq":2'));
    expect(found).toMatchObject([{ at: "file events.jsonl:2", seq: null, says: expect.stringMatching(/no event/) }]);
    expect({ isWhole, events }).toEqual({ isWhole: false, events: 2 });
  });

  it("but a last line that is cut is what a crash leaves", async () => {
    writeFileSync(join(folder, "events.jsonl"), `${linesOf(1, 2).join("\n")}`.slice(0, -9));
    const { found, notes, events } = await checkFiles(["events.jsonl"]);
    expect({ found, events }).toEqual({ found: [], events: 1 });
    expect(notes).toEqual([expect.stringMatching(/^events.jsonl ends in the middle of line 2/)]);
  });

  it("lines without sums, of earlier versions, do not tell what lacks from what was said twice", async () => {
    const { found, isWhole, unchecked } = await check(unsummed(linesOf(1, 3, 4, 7)));
    expect({ found, isWhole }).toEqual({ found: [], isWhole: true });
    expect(unchecked).toMatchObject([{ what: "lost lines of events", why: expect.stringMatching(/: 2 gaps$/) }]);
  });
});
