import { describe, expect, it } from "vitest";
import { type EventFields, eventLine, readEventLine } from "../src/run/event-line.ts";

const fields = (seq: number): EventFields => ({
  ...{ seq, at: "2026-01-02T12:00:00.000Z", from: "controller", term: 1, kind: "job.started" },
  body: { term: 1, steps: 9, seed: 7 },
  at_ms: seq,
});

describe("a line of events", () => {
  const [first, second] = [eventLine(fields(1), ""), eventLine(fields(2), eventLine(fields(1), "").sum)];

  it("is read as it was written, in the order in which it was written", () => {
    expect(readEventLine(first.text, "")).toMatchObject({ seq: 1, isInOrder: true, sum: first.sum, fact: { term: 1 } });
    expect(readEventLine(second.text, first.sum)).toMatchObject({ seq: 2, isInOrder: true });
  });

  it("is not in order after another line, nor when a letter of it is another one", () => {
    expect(readEventLine(second.text, "")).toMatchObject({ isInOrder: false });
    expect(readEventLine(first.text.replace('"steps":9', '"steps":8'), "")).toMatchObject({ isInOrder: false });
  });

  it("of before there were sums is read without one", () => {
    expect(readEventLine(JSON.stringify(fields(1)), "")).toMatchObject({ sum: null, isInOrder: true });
  });

  it("of a kind that is not known is kept apart", () => {
    const line = eventLine({ ...fields(1), kind: "job.dreamt" }, "");
    expect(readEventLine(line.text, "")).toMatchObject({ fact: null, kind: "job.dreamt" });
  });

  it("that is none says why", () => {
    expect(readEventLine('{"seq":1', "")).toMatch(/^it is not JSON/);
    expect(readEventLine("{}", "")).toMatch(/^seq: /);
    expect(readEventLine(eventLine({ ...fields(1), body: { term: 1 } }, "").text, "")).toMatch(/^job.started.steps: /);
  });
});
