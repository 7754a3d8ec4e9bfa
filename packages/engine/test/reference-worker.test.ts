/** Reference policies that are workers: their checks, and what a trainer makes of their answers. About 5 s: each starts a process. */
import { messageOf } from "@muster/base";
import { needsOfTask, taskOf } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { makeTempDirectory } from "@muster/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { embeddedAdapter } from "../src/embedded/adapter.ts";
import type { PolicyEngine, TrainSample } from "../src/index.ts";
import { openReferenceOf } from "../src/index.ts";
import { scorerFault, workerChecks } from "../src/worker/index.ts";
import { hasPython, noPython, pythonWorker, scorerConfigOf, supportCommand } from "./worker-fixture.ts";

const needs = needsOfTask(taskOf("dates"));
const program = "odd-reference.mjs";

const checksOf = (table: Readonly<Record<string, string>>) =>
  workerChecks({ table, needs, env: process.env, trajectories: [] }).checks;

describe("the worker examples/python-worker/reference.py", () => {
  beforeEach((context) => context.skip(!hasPython, noPython));

  const checks = hasPython
    ? checksOf(pythonWorker("python-worker/reference.py"))
    : [{ says: "is not tried", run: async () => {} }];
  it.each(checks)("$says", ({ run }) => run());
});

describe("a worker is found out that", () => {
  it.each([
    [
      "positive",
      "refers: gives each response token",
      /log-probability 0 of its answer is 0\.5, and must be finite and at most 0/,
    ],
    ["nan", "refers: gives each response token", /log-probability 0 of its answer is NaN/],
    ["short", "refers: gives each response token", /should be f32\[\d+\] within it/],
    ["unnormal", "refers: the probabilities of all tokens", /they are 15\.8\d+ together at temperature 1/],
    ["drifts", "refers: equal sequences", /another order/],
  ])("gives what is %s", async (mode, says, fault) => {
    const checks = checksOf({ command: supportCommand(program, mode) });
    const check = checks.find((one) => one.says.startsWith(says));
    expect(await check?.run().then(() => "nothing", messageOf)).toMatch(fault);
  });
});

const configOf = (mode: string, build: string | null = null) => scorerConfigOf(program, mode, { batch: 2, build });

describe("a job does not begin with a reference worker, as no vote would see one that differs,", () => {
  it.each([
    ["without its build, which is named", "good", null, /^reference\.worker\.build is not set.*; set it to "odd-1"$/],
    ["of another build", "good", "odd-2", /has the build odd-1, and reference\.worker\.build wants odd-2/],
    ["that need not give equal answers", "loose", "odd-1", /need not have equal log-probabilities/],
  ])("%s", (_, mode, build, fault) => {
    expect(scorerFault("reference", configOf(mode, build), needs, process.env)).toMatch(fault);
  });

  it("and does with one that is pinned", () => {
    expect(scorerFault("reference", configOf("good", "odd-1"), needs, process.env)).toBeNull();
  });
});

describe("the sum of the probabilities", () => {
  const sums = (vocab: number) => {
    const table = { command: supportCommand(program, "large") };
    const { checks } = workerChecks({ table, needs: { ...needs, vocab }, env: process.env, trajectories: [] });
    return checks.filter(({ says }) => says.startsWith("refers: the probabilities of all tokens"));
  };

  it("may be below 1, for the model may have more tokens than the task", async () => {
    const [check] = sums(43);
    await check?.run();
    const [small] = sums(65);
    expect(await small?.run().then(() => "nothing", messageOf)).toMatch(/they are 1\.01\d+ together/);
  });

  it("is no check of a vocabulary that is not summed over", () => {
    expect(sums(4_096).length).toBe(1);
    expect(sums(4_097)).toEqual([]);
  });
});

describe("a trainer without a reference policy of its own", () => {
  async function trainer(mode: string): Promise<PolicyEngine> {
    const task = taskOf("dates");
    const config = {
      task: { name: "dates" },
      sampling: { maxNewTokens: 16 },
      scorers: { reference: configOf(mode) },
    } as unknown as JobConfig;
    const options = embeddedAdapter.schema.parse({}) as Parameters<NonNullable<typeof embeddedAdapter.openPolicy>>[0];
    const engine = await embeddedAdapter.openPolicy?.(options, { needs: needsOfTask(task), config });
    return await openReferenceOf(config, engine as PolicyEngine, process.env);
  }
  const samples = [4, 6, 3].map(
    (length): TrainSample => ({
      tokens: new Int32Array(length),
      promptLength: 2,
      logprobs: new Float32Array(length - 2),
      advantage: 0,
    }),
  );
  const asking = { temperature: 1, signal: new AbortController().signal };

  it("gets log-probabilities from the worker, in requests of a batch, and hears of each that is done", async () => {
    const engine = await trainer("good");
    let parts = 0;
    const rows = await engine.referenceLogprobs?.(samples, { ...asking, onPart: () => parts++ });
    expect(rows?.map((row) => row.length)).toEqual([2, 4, 1]);
    expect(rows?.[1]?.[0]).toBeCloseTo(-Math.log(needs.vocab), 5);
    expect(parts).toBe(3);
    await engine.close();
  });

  it("hears of the next one while that starts, too", async () => {
    const folder = await makeTempDirectory();
    const engine = await trainer(`slow-next '${folder.path}/started'`);
    let parts = 0;
    await engine.referenceLogprobs?.(samples, { ...asking, onPart: () => parts++ });
    expect(parts).toBeGreaterThan(samples.length);
    await engine.close();
    await folder.remove();
  });

  it("gets them from the next one when the worker ends, and is told what it said where each one ends", async () => {
    const engine = await trainer("mates-end");
    expect((await engine.referenceLogprobs?.(samples, asking))?.map((row) => row.length)).toEqual([2, 4, 1]);
    await engine.close();
    const other = await trainer("ends");
    await expect(other.referenceLogprobs?.(samples, asking)).rejects.toThrow(/ended with exit code 9/);
    await other.close();
  });
});
