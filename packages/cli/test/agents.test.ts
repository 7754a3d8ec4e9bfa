/**
 * Agents sample: programs that know only the OpenAI API, at the endpoints that the composition opens for them. The file takes some 15 s: each sample starts a
 * Python, which alone takes seconds on a busy machine.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { silentLogger } from "@muster/base";
import { taskOf } from "@muster/data";
import {
  type AgentOptions,
  collectGroups,
  type Generated,
  type GenerateRequest,
  type RolloutEngine,
} from "@muster/engine";
import type { Trajectory } from "@muster/protocol";
import { systemClock } from "@muster/runtime";
import { expect, onTestFinished, test, vi } from "vitest";
import { openAgents } from "../src/composition/agents.ts";

vi.setConfig({ testTimeout: 30_000 });

const task = taskOf("addition");
const [stop = 0] = task.stopTokenIds;
const agentFile = fileURLToPath(new URL("support/agent.py", import.meta.url));

/** Draws a digit that the seed names, and the end. Its weights are one version newer with every turn. */
function engineThat(fault?: () => void): RolloutEngine & { readonly asked: GenerateRequest[] } {
  const asked: GenerateRequest[] = [];
  const [low = 0] = task.encode("0");
  const draw = (request: GenerateRequest): Generated => {
    asked.push(request);
    const version = 4 + asked.length;
    const responseIds = Int32Array.of(low + (request.seed % 10), stop);
    return {
      responseIds,
      logprobs: Float32Array.of(-1, -2),
      finish: "stop",
      versionAtStart: version,
      versionAtEnd: version,
    };
  };
  return {
    asked,
    info: () => ({
      kind: "double",
      build: "1",
      modelId: "m",
      vocab: task.vocab,
      maxContext: 40,
      ranks: 1,
      logprobs: "raw",
    }),
    weightVersion: () => 5,
    abort: async () => {},
    async generate(requests: readonly GenerateRequest[]) {
      fault?.();
      return requests.map((request) => [draw(request)]);
    },
  } as unknown as RolloutEngine & { readonly asked: GenerateRequest[] };
}

interface Change extends Partial<AgentOptions> {
  readonly does: string;
  readonly samples?: number;
  readonly fanOut?: number;
  readonly engine?: RolloutEngine;
  readonly timeMs?: number;
  readonly settled?: () => void;
}

async function sampled({
  does,
  samples = 1,
  fanOut = 1,
  timeMs = 20_000,
  ...change
}: Change): Promise<readonly Trajectory[]> {
  const { engine = engineThat(), settled = () => {}, ...agent } = change;
  const generate = await openAgents(
    {
      ...{ command: `python3 -I -S '${agentFile}' ${does}`, directory: tmpdir(), environment: null, reward: "session" },
      ...{ atOnce: 4, memoryBytes: 0, outputBytes: 2 ** 20, ...agent },
    },
    silentLogger,
  );
  onTestFinished(() => generate.close?.());
  const [group] = await collectGroups({
    ...{ engine, generate, fanOut, task, groupSize: samples, seed: 1, step: 3, version: 5 },
    prompts: [{ index: 0, attempt: 0, prompt: task.trainPrompt({ seed: 1, step: 3, index: 0 }) }],
    reward: { name: "last", score: async ({ messages }) => Number(messages?.at(-1)?.content) },
    sampling: { temperature: 1, maxNewTokens: 4, stopTokenIds: task.stopTokenIds },
    ...{
      settled,
      rewardTimeoutMs: 5_000,
      generateTimeoutMs: timeMs,
      clock: systemClock(),
      signal: new AbortController().signal,
    },
  });
  return group?.trajectories ?? [];
}

const prompt = task.trainPrompt({ seed: 1, step: 3, index: 0 });

test("an episode of two turns is one trajectory: what was drawn is in the loss, what the tool said is not, and each token knows its weights", async () => {
  const engine = engineThat();
  const [trajectory] = await sampled({ does: "plays", engine });
  const [first, second] = engine.asked as [GenerateRequest, GenerateRequest];
  const begin = prompt.ids.length;
  // The second turn goes on behind the very tokens of the first one.
  expect(Array.from(second.promptIds.subarray(0, begin + 2))).toEqual([
    ...first.promptIds,
    ...(trajectory?.tokens.subarray(begin, begin + 2) ?? []),
  ]);
  expect(task.decode(second.promptIds.subarray(begin + 2))).toBe("7=");
  // The trainer learns at the job's temperature: the agent's own is not taken.
  expect(engine.asked.map(({ sampling }) => sampling.temperature)).toEqual([1, 1]);
  expect(trajectory).toMatchObject({ promptLength: begin, reward: prompt.answer.length, status: "completed" });
  expect(Array.from(trajectory?.lossMask ?? [])).toEqual([1, 1, 0, 0, 1, 1]);
  expect(Array.from(trajectory?.logprobs ?? [])).toEqual([-1, -2, 0, 0, -1, -2]);
  expect(trajectory?.segments).toEqual([
    { version: 5, from: 0, to: 2 },
    { version: 6, from: 2, to: 6 },
  ]);
});

test("the same sample draws the same numbers wherever it is begun again, and other samples draw others", async () => {
  const seedsOf = async (samples: number) => {
    const engine = engineThat();
    await sampled({ does: "plays", engine, samples, atOnce: 1 });
    return engine.asked.map(({ seed, from }) => `${seed}/${from}`);
  };
  const [once, again] = [await seedsOf(2), await seedsOf(2)];
  expect(once).toEqual(again);
  expect(new Set(once).size).toBe(4);
});

test.each<readonly [string, Change, string]>([
  ["fails", { does: "exits" }, "exit code 1; it said last: the tool is not there"],
  ["asks the model nothing", { does: "asks-nothing" }, "OPENAI_BASE_URL"],
  ["posts no reward", { does: "posts-no-reward" }, "it posted no reward"],
  ["branches", { does: "branches" }, "2 trajectories"],
  ["asks for what the sampler can not do", { does: "asks-for-tools" }, "tools: this job"],
  ["does not end", { does: "hangs", timeMs: 700 }, "did not end within 700 ms"],
  ["writes without end", { does: "writes", outputBytes: 50_000 }, "it wrote more than 50000 bytes"],
  ["takes all memory", { does: "grows", memoryBytes: 64 * 2 ** 20 }, "rollout.agent.memory"],
  ["is not there", { does: "", command: "/no/such/agent" }, "ended before its time"],
])("an agent that %s costs its trajectory alone, with the cause", async (_, change, cause) => {
  const [trajectory] = await sampled(change);
  expect(trajectory).toMatchObject({ status: "aborted", error: { message: expect.stringContaining(cause) } });
});

test("the job's reward judges the conversation where it is asked to", async () => {
  const engine = engineThat();
  const [trajectory] = await sampled({ does: "posts-no-reward", reward: "task", engine });
  expect(trajectory?.reward).toBe((engine.asked[1]?.seed ?? 0) % 10);
});

test("an episode of fewer trajectories than declared is filled up with copies that are in no loss", async () => {
  const trajectories = await sampled({ does: "branches", fanOut: 3 });
  expect(trajectories.map(({ lossMask, reward }) => [lossMask.reduce((sum, bit) => sum + bit, 0), reward])).toEqual([
    ...[2, 2, 0].map((bits) => [bits, 1]),
  ]);
});

test("an agent that has ended its session is not waited for", async () => {
  const [trajectory] = await sampled({ does: "ends" });
  expect(trajectory).toMatchObject({ status: "completed", reward: 0.25 });
});

test("what an agent leaves behind ends with it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-agents-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "pid");
  const [trajectory] = await sampled({ does: `leaves-a-process '${file}'` });
  expect(trajectory?.status).toBe("completed");
  const pid = Number(readFileSync(file, "utf8"));
  await expect.poll(() => isAlive(pid), { timeout: 5_000 }).toBe(false);
});

test("nobody writes to an agent's output once the agent has ended, so nobody is read from for ever", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-agents-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "pid");
  const [trajectory] = await sampled({ does: `leaves-a-writer '${file}'`, outputBytes: 2 ** 40 });
  expect(trajectory?.status).toBe("completed");
  const pid = Number(readFileSync(file, "utf8"));
  await expect.poll(() => isAlive(pid), { timeout: 5_000 }).toBe(false);
});

test("no more agents run at once than may, and waiting costs a sample none of its time", async () => {
  const folder = mkdtempSync(join(tmpdir(), "muster-agents-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "count");
  const settled = vi.fn();
  await sampled({ does: `counts '${file}'`, samples: 6, atOnce: 2, settled });
  expect(settled).toHaveBeenCalledTimes(6);
  let [now, most] = [0, 0];
  for (const mark of readFileSync(file, "utf8")) {
    now += mark === "+" ? 1 : -1;
    most = Math.max(most, now);
  }
  expect(now).toBe(0);
  expect(most).toBeLessThanOrEqual(2);
});

test("a failure of the engine is not the agent's: the whole call ends with it", async () => {
  const engine = engineThat(() => {
    throw new Error("the device is gone");
  });
  await expect(sampled({ does: "plays", engine })).rejects.toThrow("the device is gone");
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
