/** The files for TensorBoard, read back by a reader of its own: the steps that stand, each once, whatever became of the job. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { EventMessage } from "@muster/client";
import type { Body } from "@muster/protocol";
import { makeTempDirectory, readEventFile } from "@muster/testkit";
import { afterAll, describe, expect, test } from "vitest";
import { crc32c } from "../../src/tensorboard/records.ts";
import { TensorBoardFiles } from "../../src/tensorboard/tensorboard-files.ts";

const folder = await makeTempDirectory();
afterAll(() => folder.remove());

const startMs = Date.UTC(2026, 0, 1);
const said = <K extends EventMessage["kind"]>(kind: K, body: Partial<Body<K>>, atMs = 0) =>
  ({ kind, body, sentAtMs: startMs + atMs }) as unknown as EventMessage;
const committed = (step: number, lineage: number, reward = step / 8) =>
  said("step.committed", { step, lineage, version: step, reward, loss: -0.1, approxKl: 0.001, lr: 0.001 }, step * 1000);
const evaluated = (version: number, correct: number) => said("eval.finished", { version, correct, prompts: 8 });

let number = 0;
const filesIn = (directory: string): string[] => readdirSync(join(directory, "tensorboard"));
const boardOf = (directory: string, stepsMax?: number) =>
  new TensorBoardFiles({
    directory,
    attempt: (_, write) => {
      write();
      return true;
    },
    ...(stepsMax ? { stepsMax } : {}),
  });
const read = (directory: string) => {
  const [name, ...more] = filesIn(directory);
  expect(more).toEqual([]);
  return readEventFile(readFileSync(join(directory, "tensorboard", name!)));
};
const stepsOf = (directory: string, tag = "reward/reward") =>
  read(directory).scalars.flatMap((scalar) => (scalar.tag === tag ? [[scalar.step, scalar.value]] : []));

/** What is left in a new folder after these events. */
function after(events: readonly EventMessage[], stepsMax?: number): string {
  const directory = join(folder.path, `run-${++number}`);
  const board = boardOf(directory, stepsMax);
  for (const event of events) board.take(event);
  return directory;
}

test("a check sum is the one of the standard", () => {
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
});

describe("a file of events", () => {
  test("has the figures of each step under their families, as 32-bit numbers, and says when", () => {
    const directory = after([committed(1, 1), committed(2, 1, 0.3)]);
    const { version, starts, scalars } = read(directory);
    expect({ version, starts }).toEqual({ version: "brain.Event:2", starts: [0] });
    expect(scalars.filter(({ step }) => step === 2)).toEqual(
      Object.entries({
        ...{ "reward/reward": 0.3, "policy/loss": -0.1, "policy/approx_kl": 0.001, "policy/lr": 0.001 },
      }).map(([tag, value]) => ({ tag, step: 2, value: Math.fround(value), wallS: startMs / 1000 + 2 })),
    );
  });

  test("has curves of the parts of rewards, and none for more names than the first 32", () => {
    const part = (name: string, mean: number) => ({ name, count: 4, mean, spread: 0.5, least: 0, most: 1 });
    const madeUp = Array.from({ length: 40 }, (_, i) => part(`made-up-${i}`, i));
    const step = (at: number, components: Body<"step.committed">["components"]) =>
      said("step.committed", { step: at, lineage: 1, version: at, reward: 1, components });
    const directory = after([step(1, [part("form", 0.25)]), step(2, madeUp), step(3, [part("form", 0.75)])]);
    const tags = new Set(read(directory).scalars.map(({ tag }) => tag));
    expect([...tags].filter((tag) => tag.startsWith("reward_components/"))).toHaveLength(32);
    expect(stepsOf(directory, "reward_components/form")).toEqual([
      [1, 0.25],
      [3, 0.75],
    ]);
    expect(stepsOf(directory, "reward_components_spread/form")).toEqual([
      [1, 0.5],
      [3, 0.5],
    ]);
  });

  test("has held-out results at their steps, the last one of a version", () => {
    const directory = after([evaluated(0, 1), committed(1, 1), evaluated(1, 2), evaluated(1, 4)]);
    expect(stepsOf(directory, "reward/held_out")).toEqual([
      [0, 0.125],
      [1, 0.5],
    ]);
  });

  test("of a job that went back has the steps that stand, each once, and tells a reader to forget the others", () => {
    const back = [
      ...[1, 2, 3, 4].map((step) => committed(step, 1)),
      evaluated(4, 8),
      committed(3, 2, 7),
      committed(3, 1),
    ];
    const directory = after([...back, committed(4, 2, 8)]);
    expect(stepsOf(directory)).toEqual([
      [1, 0.125],
      [2, 0.25],
      [3, 7],
      [4, 8],
    ]);
    expect(stepsOf(directory, "reward/held_out")).toEqual([]);
    expect(read(directory).starts).toEqual([0]);
  });

  test("of a job that ended in a later line before its last steps has none of those", () => {
    const directory = after([committed(1, 1), committed(2, 1), said("job.ended", { lineage: 2, version: 1 })]);
    expect(stepsOf(directory)).toEqual([[1, 0.125]]);
  });

  test("of a job that goes on is another one in place of the first, with a later name", () => {
    const directory = after([committed(1, 1), committed(2, 1)]);
    const [before] = filesIn(directory);
    writeFileSync(join(directory, "tensorboard", "events.out.tfevents.1.other-host"), "not ours");
    const board = boardOf(directory);
    for (const event of [committed(1, 1), committed(2, 1), committed(3, 1)]) board.take(event);
    const [other, own, ...more] = filesIn(directory);
    expect(more).toEqual([]);
    expect(other).toBe("events.out.tfevents.1.other-host");
    expect((own ?? "") > (before ?? "")).toBe(true);
    expect(readEventFile(readFileSync(join(directory, "tensorboard", own!))).scalars.at(-1)?.step).toBe(3);
  });

  test("is bounded: of a long job it has every second, fourth … step", () => {
    const long = Array.from({ length: 1000 }, (_, i) => committed(i + 1, 1));
    const steps = stepsOf(after(long, 100)).map(([step]) => step);
    expect(steps.length).toBeLessThanOrEqual(100);
    expect(steps.length).toBeGreaterThan(50);
    expect(steps.every((step) => step! % 16 === 0)).toBe(true);
    expect(steps.at(-1)).toBe(992);
  });

  test("that could not be written for a while has everything once it can be", () => {
    const directory = join(folder.path, `run-${++number}`);
    let isFull = false;
    const board = new TensorBoardFiles({
      directory,
      attempt: (_, write) => {
        if (!isFull) write();
        return !isFull;
      },
    });
    for (const step of [1, 2, 3, 4, 5]) {
      isFull = step === 2 || step === 3;
      board.take(committed(step, 1));
    }
    expect(stepsOf(directory).map(([step]) => step)).toEqual([1, 2, 3, 4, 5]);
  });
});
