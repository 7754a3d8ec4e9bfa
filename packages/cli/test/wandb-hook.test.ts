/** The hook for Weights & Biases in `examples/wandb`, on files that the run's own writers write, with a module `wandb` that notes what it is told. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { EventMessage } from "@muster/client";
import { type Body, stepFigures } from "@muster/protocol";
import { makeTempDirectory, readEventFile } from "@muster/testkit";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { MetricsFile } from "../src/run/metrics-file.ts";
import { TensorBoardFiles } from "../src/tensorboard/tensorboard-files.ts";

vi.setConfig({ testTimeout: 20_000 });

const hookFile = fileURLToPath(new URL("../../../examples/wandb/hook.py", import.meta.url));
const folder = await makeTempDirectory();
afterAll(() => folder.remove());

/** Notes each call as a line; a run that is there already says how far it is. */
const stub = `
import json, os
def note(*words):
    with open(os.environ["NOTES"], "a") as file: file.write(json.dumps(words) + "\\n")
class Run:
    resumed, step = False, 0
    def log(self, data, step, commit): note("log", step, data)
    def finish(self): note("finish")
def init(**options):
    note("init", options)
    return Run()
`;

interface Note {
  readonly inits: readonly Record<string, unknown>[];
  readonly steps: readonly number[];
  readonly data: readonly Record<string, number>[];
  readonly finished: number;
}

/** A run's folder, with its own writers, and hooks at it. */
class Fixture {
  readonly run: string;
  readonly #modules: string;
  readonly #notes: string;
  readonly #metrics: MetricsFile;
  readonly #board: TensorBoardFiles;

  constructor(name: string, bytesMax = 1e9, module = stub) {
    const place = join(folder.path, name);
    this.run = join(place, "dates");
    this.#modules = join(place, "modules");
    this.#notes = join(place, "notes");
    for (const path of [place, this.run, this.#modules]) mkdirSync(path);
    writeFileSync(join(this.#modules, "wandb.py"), module);
    const attempt = (_: string, write: () => void): boolean => {
      write();
      return true;
    };
    this.#metrics = new MetricsFile({ directory: this.run, attempt, bytesMax, onDropped: () => {} });
    this.#board = new TensorBoardFiles({ directory: this.run, attempt });
  }

  commit(step: number, { lineage = 1, components = ["form"] } = {}): void {
    const figures = Object.fromEntries(stepFigures.map(({ field }, i) => [field, step + i / 8]));
    const parts = components.map((name, i) => ({ name, mean: step, spread: i, least: 0, most: 1, count: 8 }));
    const body = { ...figures, step, lineage, version: step, components: parts } as unknown as Body<"step.committed">;
    const event = { kind: "step.committed", body, sentAtMs: step } as EventMessage;
    this.#metrics.take(event, step);
    this.#board.take(event);
  }

  end(): void {
    for (const kind of ["step.committed", "job.ended"])
      appendFileSync(join(this.run, "events.jsonl"), `{"seq":1,"at":"","kind":"${kind}","body":{}}\n`);
  }

  hook(...args: readonly string[]): ChildProcess {
    const env = { ...process.env, PYTHONPATH: this.#modules, PYTHONDONTWRITEBYTECODE: "1", NOTES: this.#notes };
    const child = spawn("python3", [hookFile, "--run", this.run, "--poll", "0.02", ...args], { env });
    onTestFinished(() => void child.kill("SIGKILL"));
    return child;
  }

  /** Runs a hook until it ends. @returns Its exit code, and what it said. */
  async hooked(...args: readonly string[]): Promise<readonly [unknown, string]> {
    return await endOf(this.hook(...args));
  }

  get notes(): Note {
    const calls = existsSync(this.#notes)
      ? readFileSync(this.#notes, "utf8")
          .trimEnd()
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line))
      : [];
    const logged = calls.filter(([call]) => call === "log");
    return {
      inits: calls.filter(([call]) => call === "init").map(([, options]) => options),
      steps: logged.map(([, step]) => step),
      data: logged.map(([, , data]) => data),
      finished: calls.filter(([call]) => call === "finish").length,
    };
  }

  async logged(...steps: readonly number[]): Promise<void> {
    await vi.waitFor(() => expect(this.notes.steps).toEqual(steps), { timeout: 5_000, interval: 20 });
  }
}

async function endOf(child: ChildProcess): Promise<readonly [unknown, string]> {
  const [said, [code]] = await Promise.all([text(child.stderr!), once(child, "exit")]);
  return [code, said];
}

/** Waits until a process has read a file to its end. */
async function hasRead({ pid }: ChildProcess, path: string): Promise<void> {
  const hasAll = (): boolean => {
    const numbers = readdirSync(`/proc/${pid}/fd`).filter((number) => linkOf(`/proc/${pid}/fd/${number}`) === path);
    return numbers.some((number) => {
      const [, position] = /pos:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/fdinfo/${number}`, "utf8")) ?? [];
      return Number(position) === statSync(path).size;
    });
  };
  await vi.waitFor(() => expect(hasAll()).toBe(true), { timeout: 5_000, interval: 5 });
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ""; // closed meanwhile
  }
}

test("each step is logged once, in order, with the names and figures that TensorBoard gets", async () => {
  const run = new Fixture("names");
  const names = Array.from({ length: 40 }, (_, i) => `part-${i}`);
  for (const step of [1, 2, 3]) run.commit(step, { components: names.slice(step, step + 32) });
  run.end();
  expect(await run.hooked("--project", "p", "--until-end")).toEqual([0, "hook: logged up to step 3\n"]);
  const { inits, steps, data, finished } = run.notes;
  expect(inits).toEqual([{ project: "p", name: "dates", id: expect.stringMatching(/^dates-\w{8}$/), resume: "allow" }]);
  expect([steps, finished]).toEqual([[1, 2, 3], 1]);
  const [file = ""] = readdirSync(join(run.run, "tensorboard"));
  const board = readEventFile(readFileSync(join(run.run, "tensorboard", file)));
  const sorted = (points: readonly (readonly [number, string, number])[]) =>
    points.map((point) => point.join(" ")).sort();
  expect(
    sorted(
      data.flatMap((one, i) =>
        Object.entries(one).map(([tag, value]) => [steps[i]!, tag, Math.fround(value)] as const),
      ),
    ),
  ).toEqual(sorted(board.scalars.map(({ step, tag, value }) => [step, tag, value] as const)));
});

describe("a hook that follows", () => {
  test("logs what comes, leaves a line that is half written, and goes on behind it when it is started again", async () => {
    const run = new Fixture("follows");
    run.commit(1);
    const first = run.hook();
    const firstEnd = endOf(first);
    await run.logged(1);
    run.commit(2);
    await run.logged(1, 2);
    const path = join(run.run, "metrics.jsonl");
    const [line = ""] = readFileSync(path, "utf8").split("\n");
    const third = `${line.replace('"step":1,', '"step":3,').replace('"version":1,', '"version":3,')}\n`;
    appendFileSync(path, third.slice(0, 40));
    first.kill("SIGINT");
    expect(await firstEnd).toEqual([130, "hook: logged up to step 2\n"]);
    const second = run.hook();
    const secondEnd = endOf(second);
    await vi.waitFor(() => expect(run.notes.inits).toHaveLength(2), { timeout: 5_000 });
    await hasRead(second, path);
    appendFileSync(path, third.slice(40));
    await run.logged(1, 2, 3);
    const state = join(run.run, "wandb-hook.json");
    await vi.waitFor(() => expect(JSON.parse(readFileSync(state, "utf8"))).toMatchObject({ step: 3 }), {
      timeout: 5_000,
    });
    second.kill("SIGKILL");
    await secondEnd;
    run.end();
    expect(await run.hooked("--until-end")).toEqual([0, "hook: logged up to step 3\n"]);
    expect(run.notes.steps).toEqual([1, 2, 3]);
    expect(new Set(run.notes.inits.map(({ id }) => id)).size).toBe(1);
  });

  test.each([
    ["one file", 1e9],
    ["many parts", 20_000],
  ])("logs each step once while the job goes back and writes steps anew, in %s", async (name, bytesMax) => {
    const run = new Fixture(name, bytesMax);
    const hook = run.hook();
    const end = endOf(hook);
    const upTo = (last: number) => Array.from({ length: last }, (_, i) => i + 1);
    for (const step of upTo(20)) run.commit(step);
    await run.logged(...upTo(20));
    for (let step = 21; step <= 24; step++) {
      run.commit(step);
      await run.logged(...upTo(step));
    }
    expect(existsSync(join(run.run, "metrics.3.jsonl"))).toBe(bytesMax < 1e9);
    hook.kill("SIGSTOP"); // so that it sees nothing between
    for (let step = 11; step <= 26; step++) run.commit(step, { lineage: 2, components: [] });
    hook.kill("SIGCONT");
    await run.logged(...upTo(26));
    hook.kill("SIGTERM");
    const [code, said] = await end;
    expect(code).toBe(143);
    expect(said.match(/the job went back: .*/g)).toEqual([
      expect.stringMatching(/^the job went back: steps \d+ to 24 are computed again/),
    ]);
    run.end();
    await run.hooked("--until-end", "--id", "another");
    expect(run.notes.steps.slice(26)).toEqual(upTo(26).slice(-run.notes.steps.slice(26).length));
    expect(run.notes.steps.at(26)).toBeLessThan(11);
    expect(run.notes.inits.at(-1)).toMatchObject({ id: "another" });
  });
});

describe("one clear sentence is said", () => {
  test("where wandb is not installed, with the way to install it", async () => {
    const run = new Fixture("missing", 1e9, "raise ImportError('no module')");
    expect(await run.hooked()).toEqual([
      2,
      expect.stringMatching(/^hook: wandb is not installed for \S+; install it: \S+ -m pip install wandb\n$/),
    ]);
  });

  test("where W&B does not open the run, where there is no such run, and where another hook logs it", async () => {
    const run = new Fixture("refused", 1e9, "def init(**options): raise OSError('no network')");
    expect(await run.hooked()).toEqual([
      2,
      expect.stringMatching(/no network; look at .* or set WANDB_MODE=offline\n$/),
    ]);
    expect(await run.hooked("--run", "/nowhere")).toEqual([
      2,
      expect.stringMatching(/^hook: --run \/nowhere: there is no such folder; name /),
    ]);
    const taken = new Fixture("taken");
    taken.hook();
    await vi.waitFor(() => expect(taken.notes.inits).toHaveLength(1), { timeout: 5_000 });
    expect(await taken.hooked()).toEqual([
      2,
      expect.stringMatching(/another hook logs this run; end that one first\n$/),
    ]);
  });
});
