/** Workers that do not keep to the protocol: each is named by what it did, and it and what it started are gone. About 15 s: each is a process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { EngineRegistry, type PolicyEngine, type RolloutEngine } from "../src/index.ts";
import { gradientIn, inlineWeights } from "../src/internal.ts";
import { guarded } from "../src/programs/command.ts";
import { workerAdapterOf } from "../src/worker/index.ts";
import { openWorker } from "../src/worker/open-link.ts";
import { workerOptionsOf } from "../src/worker/options.ts";

const workerAdapter = workerAdapterOf(process.env);

vi.setConfig({ testTimeout: 20_000 });

const program = fileURLToPath(new URL("./support/bad-worker.mjs", import.meta.url));
const needs = needsOfTask(taskOf("dates"));
const never = new AbortController().signal;
const request = {
  ...{ requestId: "r", promptIds: Int32Array.of(1, 2), n: 2, seed: 1 },
  sampling: { temperature: 1, maxNewTokens: 4, stopTokenIds: [0] },
};
const sample = { tokens: Int32Array.of(1, 2, 3), promptLength: 1, logprobs: Float32Array.of(-1, -1), advantage: 1 };

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-bad-"));
});
afterAll(() => rm(folder, { recursive: true }));

const commandOf = (mode: string): string => `'${process.execPath}' '${program}' ${mode}`;

function configOf(mode: string, settings: Readonly<Record<string, string | number>> = {}): JobConfig {
  const short = { start_seconds: 5, call_seconds: 5, silence_seconds: 5, cancel_seconds: 1, arena_mb: 1 };
  const given = { command: commandOf(mode), environment: `BAD_WORKER=${mode}`, ...short, ...settings };
  const choice = { adapter: "worker", options: workerAdapter.schema.parse(given) };
  return { engine: { policy: choice, rollout: choice } } as unknown as JobConfig;
}

const registry = new EngineRegistry([["worker", workerAdapter]]);

async function sampler(mode: string, settings = {}): Promise<RolloutEngine> {
  return await registry.openRollout(configOf(mode, settings), needs);
}

async function serving(mode: string, settings = {}): Promise<RolloutEngine> {
  const engine = await sampler(mode, settings);
  await engine.updateWeights(inlineWeights(3, new Uint8Array(16)));
  return engine;
}

async function trainer(mode: string): Promise<PolicyEngine> {
  const engine = await registry.openPolicy(configOf(mode), needs);
  await engine.initialize({ kind: "seed", seed: 1 });
  engine.begin();
  return engine;
}

const accumulating = {
  normalizer: 1,
  clipLow: 0.2,
  clipHigh: 0.2,
  temperature: 1,
  out: gradientIn(new Float32Array(4)),
  signal: never,
};

/** Processes whose command line or environment names a mode. */
function left(mark: string): readonly string[] {
  const textOf = (path: string): string => {
    try {
      return readFileSync(path, "latin1");
    } catch {
      return ""; // ended meanwhile
    }
  };
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && name !== String(process.pid));
  return pids.filter((pid) =>
    ["environ", "cmdline"].some((file) => textOf(`/proc/${pid}/${file}`).split("\0").includes(mark)),
  );
}

describe("a worker does not begin that", () => {
  it.each([
    ["overlap", /tensor "two" starts at byte 8, and the one before it ends at 16/],
    ["gap", /tensor "two" starts at byte 20, and the one before it ends at 16/],
    ["overflow", /too many bytes to count/],
    ["dtype", /hello is wrong in tensors\.0\.dtype/],
    ["repeated", /tensor "one" stands there twice/],
    ["name", /"__proto__" is reserved/],
    ["empty", /hello is wrong in tensors/],
    ["negative", /hello is wrong in tensors\.0\.shape\.0/],
    ["page-gap", /tensor table is wrong: tensor "t2" starts at byte 32, and the one before it ends at 16/],
    ["page-beyond", /it has more rows than the 2 that were announced/],
    ["page-empty", /a page of its tensor table is wrong in rows/],
    ["page-huge", /hello is wrong in tensorRows/],
    ["page-and-rows", /must have one of tensors and tensorRows/],
    ["huge", /its optimizer has 70368744177664 bytes, and a section has at most 35184372088832/],
    ["endless", /its gradient has 2199023255552 elements, and at most 1099511627776 can be summed/],
    ["newer", /hello is wrong in protocol/],
    ["chatty", /a frame of \d+ bytes, and it must have 2 to 4194304; is something else written there/],
    ["refuses", /refuses this job: a vocabulary of 43 is too small for me/],
    ["no-start", /exit code 3/],
  ])("says of itself: %s", async (mode, expected) => {
    await expect(sampler(mode)).rejects.toThrow(expected);
    expect(workerAdapter.check(configOf(mode).engine.policy.options, jobOf(mode))[0]?.text).toMatch(expected);
    expect(left(`BAD_WORKER=${mode}`)).toEqual([]);
  });

  it("knows nothing of others, where the job asks for several processes", () => {
    const processes = { policy: 2, rollout: 1, checkpoint: 1 };
    const problems = workerAdapter.check(configOf("good").engine.policy.options, { ...jobOf("good"), processes });
    expect(problems).toEqual([
      {
        keys: ["processes.policy", "engine.worker.command"],
        text: expect.stringMatching(/^processes\.policy = 2: the worker does not say .*; set processes\.policy = 1$/),
      },
    ]);
  });

  it("announces more rows than it sends", async () => {
    await expect(sampler("page-missing", { start_seconds: 0.5 })).rejects.toThrow(/did not say hello within 500 ms/);
    expect(left("BAD_WORKER=page-missing")).toEqual([]);
  });

  it("never says hello", async () => {
    await expect(sampler("no-hello", { start_seconds: 0.5 })).rejects.toThrow(/no-hello.* is gone: .*hello|ETIMEDOUT/);
    expect(left("BAD_WORKER=no-hello")).toEqual([]);
  });

  it.each([
    ["/nowhere/worker", /\/nowhere\/worker/],
    ["python3 'unclosed", /command is "python3 'unclosed"; it must be a program/],
    ["", /command is ""; it must be a program/],
  ])("has the command %s", async (command, expected) => {
    await expect(sampler("good", { command })).rejects.toThrow(expected);
  });

  it("has another build than the job wants", async () => {
    await expect(sampler("good", { build: "good-2" })).rejects.toThrow(
      /another build than it said: bad-1, and the job has good-2/,
    );
    expect(left("BAD_WORKER=good")).toEqual([]);
  });
});

describe("a sampler is ended, and whoever waits hears why, when it", () => {
  it.each([
    ["garbage", /a frame of \d+ bytes/],
    ["no-json", /that is no JSON/],
    ["unknown-message", /a message that is wrong in type/],
    ["other-request", /an answer to request \d+, which was never asked/],
    ["outside", /its lengths is i32\[2\] at byte 1099511627776 of a region of 1048576 bytes/],
    ["other-version", /generated with version 99, and was given 3/],
    ["long-response", /response 0 .* has 1000 tokens, and there is room for 4/],
    ["wild-token", /has the token 1000000, and there are 43/],
    ["exits", /ended with exit code 7; it said last: CUDA error: device-side assert triggered/],
  ])("answers with: %s", async (mode, expected) => {
    const engine = await serving(mode);
    const lost = new Promise<Error>((resolve) => engine.onLost?.(resolve));
    await expect(engine.generate([request], never)).rejects.toThrow(expected);
    expect(String(await lost)).toMatch(expected);
    expect(await engine.health({ deep: true, signal: never })).toMatchObject({ ok: false, state: "stopping" });
    await expect(engine.generate([request], never)).rejects.toThrow(expected);
    await engine.close();
    expect(left(`BAD_WORKER=${mode}`)).toEqual([]);
  });

  it("answers twice: the first answer counts, and it is not asked again", async () => {
    const engine = await serving("twice");
    const lost = new Promise<Error>((resolve) => engine.onLost?.(resolve));
    const [row] = await engine.generate([request], never);
    expect(row).toHaveLength(2);
    expect(String(await lost)).toMatch(/an answer to request \d+, which is answered already/);
    await engine.close();
  });

  it.each([
    ["silent", { call_seconds: 0.4 }, /did not answer generate within 400 ms/],
    ["hangs", { silence_seconds: 0.4 }, /did not answer a ping within 400 ms/],
    ["grows", { memory_mb: 400 }, /it grew to \d+ MiB, more than the limit of 400 MiB/],
  ])("takes too much of time or memory: %s", async (mode, settings, expected) => {
    const engine = await serving(mode, settings);
    await expect(engine.generate([request], never)).rejects.toThrow(expected);
    await engine.close();
    expect(left(`BAD_WORKER=${mode}`)).toEqual([]);
  });

  it("is well while it draws for longer than whoever asks has time", async () => {
    const engine = await serving("silent", { call_seconds: 1 });
    const drawing = engine.generate([request], never).catch((error: unknown) => String(error));
    expect(await engine.health({ deep: true, signal: AbortSignal.timeout(100) })).toEqual({ ok: true, state: "up" });
    expect(await drawing).toMatch(/did not answer generate within 1000 ms/);
    await engine.close();
  });

  it("has its weights while newer ones arrive, and none when it fails in that", async () => {
    const engine = await serving("second-fails");
    let isOver = false;
    const newer = engine.updateWeights(inlineWeights(4, new Uint8Array(16))).catch((error: unknown) => {
      isOver = true;
      return String(error);
    });
    const seen = new Set<number | null>();
    for (; !isOver; await setImmediate()) seen.add(engine.weightVersion());
    expect([...seen]).toEqual([3]);
    expect(await newer).toMatch(/no memory for other weights/);
    expect(engine.weightVersion()).toBeNull();
    await engine.close();
  });

  it("does not answer after a cancel", async () => {
    const engine = await serving("silent", { cancel_seconds: 0.3 });
    const stop = new AbortController();
    const heard = vi.spyOn(process.stderr, "write");
    const lost = new Promise<Error>((resolve) => engine.onLost?.(resolve));
    const generating = engine.generate([request], stop.signal);
    await vi.waitUntil(() => heard.mock.calls.some(([text]) => String(text).includes("asked generate")), 5_000);
    heard.mockRestore();
    stop.abort(new Error("no longer wanted"));
    await expect(generating).rejects.toThrow("no longer wanted");
    expect(String(await lost)).toMatch(/did not answer generate within 300 ms after that was cancelled/);
    await engine.close();
  });
});

describe("a trainer", () => {
  it.each([
    ["stats", /its answer to accumulate is wrong in tokens/],
    ["cuts", /it cut the region gradient short/],
    ["exits", /ended with exit code 7; it said last: CUDA error/],
  ])("that answers with %s is named, and its live state is still readable", async (mode, expected) => {
    const engine = await trainer(mode);
    await expect(engine.accumulate([sample], accumulating)).rejects.toThrow(expected);
    expect(engine.state().weights).toHaveLength(16);
    await engine.close();
    expect(left(`BAD_WORKER=${mode}`)).toEqual([]);
  });

  it("whose state is larger than the shared memory of its host is not begun, and says what it needs", async () => {
    await expect(trainer("roomless")).rejects.toThrow(/regions need 1759\d+ bytes of .*; make it larger/);
    expect(left("BAD_WORKER=roomless")).toEqual([]);
  });

  it("that says an update is finite and names no norm is ended", async () => {
    const engine = await trainer("no-norm");
    const options = { ...{ lr: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, weightDecay: 0 }, clipNorm: 1 };
    await expect(engine.stage(gradientIn(new Float32Array(4)), options)).rejects.toThrow(
      /answer to stage is wrong in gradNorm/,
    );
    await engine.close();
  });

  it("whose update takes long is told when the step is not wanted any more, and trains in the next one", async () => {
    const engine = await trainer("long-update");
    const stop = new AbortController();
    const options = { ...{ lr: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, weightDecay: 0 }, clipNorm: 1 };
    const heard = vi.spyOn(process.stderr, "write");
    const staging = engine.stage(gradientIn(new Float32Array(4)), { ...options, signal: stop.signal });
    await vi.waitUntil(() => heard.mock.calls.some(([text]) => String(text).includes("asked stage")), 5_000);
    heard.mockRestore();
    stop.abort(new Error("the mesh broke"));
    await expect(staging).rejects.toThrow("the mesh broke");
    engine.discard();
    engine.begin();
    expect(await engine.accumulate([sample], accumulating)).toMatchObject({ tokens: 1 });
    await engine.close();
  });

  it("that fails in what must not fail is ended by the next call", async () => {
    const engine = await trainer("begin-fails");
    await expect(engine.accumulate([sample], accumulating)).rejects.toThrow(
      /begin must not fail, and did: .*no memory for a candidate/,
    );
    await engine.close();
  });
});

it("what a worker starts ends with it, also in a session of its own and with an empty environment", async () => {
  const engine = await serving("forks");
  expect(left("BAD_WORKER=forks").length).toBeGreaterThanOrEqual(3);
  await engine.close();
  // What is killed is gone a moment later.
  await vi.waitUntil(() => left("BAD_WORKER=forks").length === 0, { timeout: 5_000 });
});

const guard = guarded(["sleep", "600"]);

it("a worker that does not listen ends when the process that started it is killed", async (context) => {
  context.skip(guard[0] === "sleep", "this host has no setpriv");
  const path = join(folder, "parent.mjs");
  writeFileSync(
    path,
    `import { spawn } from "node:child_process";
    const [program, ...args] = process.argv.slice(2);
    const child = spawn(program, args, { stdio: "ignore", env: { ...process.env, BAD_WORKER: "deaf" } });
    child.on("spawn", () => process.send(child.pid));`,
  );
  const parent = spawn(process.execPath, [path, ...guard], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await once(parent, "message");
  expect(left("BAD_WORKER=deaf")).toHaveLength(1);
  parent.kill("SIGKILL");
  await vi.waitUntil(() => left("BAD_WORKER=deaf").length === 0, { timeout: 5_000 });
});

it("a worker that answered in time is not ended because the process that asked it was late", async () => {
  const { options } = configOf("good", { silence_seconds: 0.3 }).engine.policy;
  const { link, regions } = await openWorker("rollout", workerOptionsOf(options, process.env), needs);
  const pong = link.ping();
  const answer = link.call("no-such-method", {}, { timeoutMs: 300 });
  const untilMs = Date.now() + 900;
  while (Date.now() < untilMs); // what a collection of garbage or a stopped machine does
  await Promise.all([pong, answer]);
  await link.ping();
  await link.close();
  await regions.close();
});

it("a request that is longer than a frame is refused here, and the worker goes on", async () => {
  const { options } = configOf("good").engine.policy;
  const { link, regions } = await openWorker("rollout", workerOptionsOf(options, process.env), needs);
  const long = { stopTokenIds: "1".repeat(5 * 2 ** 20) };
  await expect(link.call("generate", long)).rejects.toThrow(/generate .*a message of \d+ bytes, and at most 4194304/);
  await link.call("updateWeights", { version: 1 });
  await link.close();
  await regions.close();
});

it("regions leave no name behind in shared memory", async () => {
  const engine = await serving("good");
  expect(readdirSync("/dev/shm").filter((name) => name.startsWith("muster-worker-"))).toEqual([]);
  await engine.close();
});

/** What the check of an adapter looks at in a job. */
function jobOf(mode: string): JobConfig {
  const task = taskOf("dates");
  return { ...configOf(mode), task: { name: task.name }, sampling: { maxNewTokens: 16 } } as unknown as JobConfig;
}

describe("a tensor table in pages", () => {
  it.each([
    ["paged", 3, 48],
    ["many", 200_000, 400_000],
  ])("of a worker that sends %s is taken whole, asked before the job and at its start", async (mode, rows, bytes) => {
    const options = configOf(mode).engine.policy.options;
    const described = workerAdapter.describe(options, needs);
    expect(described.tensors).toHaveLength(rows);
    expect(described.tensors.at(-1)).toMatchObject({ offsetBytes: bytes - bytes / rows, sizeBytes: bytes / rows });
    const worker = await openWorker("rollout", workerOptionsOf(options as never, process.env), needs);
    expect(worker.description.tensors).toEqual(described.tensors);
    expect(worker.description.weightsBytes).toBe(bytes);
    await worker.link.close();
    await worker.regions.close();
  });
});
