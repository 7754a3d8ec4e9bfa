/** Which responses a run keeps for people: those that were trained, in steps that stand, whoever was quick. */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { EventMessage } from "@muster/client";
import type { Body } from "@muster/protocol";
import { makeTempDirectory } from "@muster/testkit";
import { afterAll, describe, expect, test } from "vitest";
import { readSamples } from "../src/run/read-samples.ts";
import { SampleFile } from "../src/run/sample-file.ts";
import { sampleText } from "../src/view/sample-text.ts";

const folder = await makeTempDirectory();
afterAll(() => folder.remove());

const said = <K extends EventMessage["kind"]>(kind: K, body: Partial<Body<K>>) =>
  ({ kind, body, sentAtMs: 0 }) as unknown as EventMessage;
const committed = (step: number, streamSeq: number, lineage = 1) =>
  said("step.committed", { step, lineage, version: step, places: [{ index: 0, streamSeq }] });
const shown = (step: number, streamSeq: number, replica = "rollout-0", text = `answer of ${step}`) =>
  said("samples.shown", {
    ...{
      step,
      index: 0,
      attempt: 0,
      streamSeq,
      lineage: 1,
      version: step - 1,
      prompt: "2 + 2 =",
      answer: "4",
      replica,
    },
    responses: [{ sample: 0, status: "completed", tokens: 3, reward: 1, text }],
  });

let number = 0;
function after(events: readonly EventMessage[], bytesMax?: number) {
  const directory = join(folder.path, `run-${++number}`);
  mkdirSync(directory);
  const attempt = (_: string, write: () => void): boolean => {
    write();
    return true;
  };
  const file = new SampleFile({ directory, attempt, ...(bytesMax ? { bytesMax } : {}) });
  for (const event of events) file.take(event);
  return { file, directory, lines: readSamples(directory) };
}
const steps = (lines: readonly { readonly step: number; readonly lineage: number }[]) =>
  lines.map(({ step, lineage }) => [step, lineage]);

describe("the samples of a run", () => {
  test("are those of groups that were trained, whichever comes first, the samples or the commit", () => {
    const { lines, file } = after([
      ...[shown(1, 10, "rollout-0"), shown(1, 11, "rollout-1"), committed(1, 11)],
      ...[committed(2, 20), shown(2, 21), shown(2, 20, "rollout-2"), shown(2, 20, "rollout-2")],
      shown(3, 30),
    ]);
    expect(lines.map(({ step, replica }) => [step, replica])).toEqual([
      [1, "rollout-1"],
      [2, "rollout-2"],
    ]);
    expect(file.samples).toEqual(lines);
    expect(lines[0]).toEqual({
      ...{ step: 1, lineage: 1, group: "1.0", sample: 0, version: 0, replica: "rollout-1" },
      ...{ prompt: "2 + 2 =", answer: "4", completion: "answer of 1", tokens: 3, status: "completed" },
      ...{ reward: 1, components: null, metadata: null, error: null },
    });
  });

  test("have what their rewards are made of and say besides, also for a terminal; what is no JSON is left out", () => {
    const components = [
      { name: "form", value: 0.25 },
      { name: "right", value: 0.5 },
    ];
    const response = { sample: 0, status: "completed" as const, tokens: 3, reward: 0.75, text: "4", components };
    const both = [
      { ...response, metadata: '{"judge":"rules"}' },
      { ...response, sample: 1, metadata: "{" },
    ];
    const event = said("samples.shown", { ...shown(1, 10).body, responses: both } as Partial<Body<"samples.shown">>);
    const { lines } = after([event, committed(1, 10)]);
    expect(lines[0]).toMatchObject({ components: { form: 0.25, right: 0.5 }, metadata: { judge: "rules" } });
    expect(lines[1]).toMatchObject({ components: { form: 0.25 }, metadata: null });
    expect(sampleText(lines[0]!)).toMatch(/components +form 0\.250 {2}right 0\.500\n +metadata +\{"judge":"rules"\}/);
  });

  test("of a job that went back are those that stand, also when it trains the same groups again", () => {
    const first = [1, 2, 3].flatMap((step) => [shown(step, step), committed(step, step)]);
    const { lines, file } = after([...first, committed(2, 2, 2), shown(3, 33, "rollout-9"), committed(3, 33, 2)]);
    expect(steps(lines)).toEqual([
      [1, 1],
      [2, 2],
      [3, 2],
    ]);
    expect(lines.at(-1)?.replica).toBe("rollout-9");
    expect(steps(file.samples)).toEqual(steps(lines));
  });

  test("of a job that ended in a later line before its last steps have none of those", () => {
    const first = [1, 2, 3].flatMap((step) => [shown(step, step), committed(step, step)]);
    expect(steps(after([...first, said("job.ended", { step: 2, lineage: 2, version: 2 })]).lines)).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });

  test("are bounded on the disk and in memory: the older half goes", () => {
    const many = Array.from({ length: 500 }, (_, i) => [shown(i + 1, i + 1), committed(i + 1, i + 1)]).flat();
    const { directory, file, lines } = after(many, 20_000);
    expect(readFileSync(join(directory, "samples.jsonl")).length).toBeLessThanOrEqual(20_000);
    expect(lines.length).toBeGreaterThan(30);
    expect(lines.at(-1)?.step).toBe(500);
    expect(steps(file.samples).map(([step]) => step)).toEqual([1, ...Array.from({ length: 24 }, (_, i) => 477 + i)]);
  });

  test("are written anew by a process that goes on with the run, and none of nothing", () => {
    const { directory } = after([shown(1, 1), committed(1, 1)]);
    const attempt = (_: string, write: () => void): boolean => {
      write();
      return true;
    };
    const next = new SampleFile({ directory, attempt });
    for (const event of [shown(1, 1), committed(1, 1), shown(2, 2), committed(2, 2)]) next.take(event);
    expect(steps(readSamples(directory))).toEqual([
      [1, 1],
      [2, 1],
    ]);
    expect(existsSync(join(after([committed(1, 1)]).directory, "samples.jsonl"))).toBe(false);
  });
});

test("a response on a terminal is cleaned, and each of its lines stands under its name", () => {
  const { lines } = after([shown(1, 1, "rollout-0", "one\n\u001b[31mtwo\u202e\u0007\tthree"), committed(1, 1)]);
  expect(lines[0]?.completion).toBe("one\n\u001b[31mtwo\u202e\u0007\tthree");
  expect(sampleText(lines[0]!)).toBe(
    [
      "step 1  group 1.0  response 0  reward 1.000  3 tokens  version 0  rollout-0",
      "  prompt    2 + 2 =",
      "  answer    4",
      "  response  one",
      "            two three",
      "",
    ].join("\n"),
  );
});
