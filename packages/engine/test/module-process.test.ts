/**
 * Modules of a job in processes of their own: whatever one does to its process costs the one response that does it, and no other. About 20 s: most cases
 * start processes, some fill memory or wait for a time limit.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Logger } from "@muster/base";
import { silentLogger } from "@muster/base";
import { taskOf } from "@muster/data";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Reward } from "../src/index.ts";
import { failureKindOf } from "../src/index.ts";
import { openModuleReward } from "../src/modules/open-modules.ts";
import { moduleConfig, quiet } from "./rollout-fixture.ts";

vi.setConfig({ testTimeout: 30_000 });

const task = taskOf("addition");
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "muster-module-process-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const rewards: Reward[] = [];
afterEach(async () => {
  for (const reward of rewards.splice(0)) await reward.close?.();
});

let modules = 0;
interface Change {
  readonly rewardMs?: number;
  readonly moduleBytes?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly logger?: Logger;
}

/** A reward whose code is this; it has `text`, what the response says. */
async function rewardOf(code: string, { rewardMs = 10_000, moduleBytes = 2 ** 28, ...rest }: Change = {}) {
  const path = join(folder, `reward-${modules++}.mjs`);
  writeFileSync(
    path,
    `import { spawn } from "node:child_process";
     import { existsSync, writeFileSync, writeSync } from "node:fs";
     const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
     export default async ({ responseText: text }, signal) => { ${code}; return Number(text); };`,
  );
  const config = moduleConfig({ rewardMs, moduleBytes });
  const reward = await openModuleReward(path, { config, env: {}, logger: silentLogger, ...rest });
  rewards.push(reward);
  return reward;
}

const scored = (reward: Reward, texts: readonly string[], signal = quiet()) =>
  Promise.allSettled(
    texts.map((responseText) =>
      reward.score({ prompt: task.evalPrompt(0), responseIds: Int32Array.of(1), responseText, finish: "stop" }, signal),
    ),
  );

const saidBy = (outcome: PromiseSettledResult<unknown>): unknown =>
  outcome.status === "fulfilled" ? outcome.value : outcome.reason.message;

/** False for one that has ended, also while nobody has asked how. */
function isRunning(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, "latin1").includes(") Z ");
  } catch {
    return false;
  }
}

/** Eight responses, of which the fifth is this one. */
const around = (bad: string): string[] => ["0", "1", "2", "3", bad, "5", "6", "7"];

/** What the others are worth, and the fault of the fifth. */
async function faultAmongGood(reward: Reward, bad: string): Promise<Error> {
  const outcomes = await scored(reward, around(bad));
  const fault = outcomes[4];
  expect(outcomes.toSpliced(4, 1).map(saidBy)).toEqual([0, 1, 2, 3, 5, 6, 7]);
  expect(fault?.status).toBe("rejected");
  return (fault as PromiseRejectedResult).reason as Error;
}

describe("a response whose reward", () => {
  it.each([
    ["ends the process", `if (text === "bad") process.exit(9)`, /ended with exit code 9/],
    ["ends it after it waited", `await wait(20); if (text === "bad") process.exit(9)`, /ended with exit code 9/],
    ["kills it", `if (text === "bad") process.kill(process.pid, "SIGKILL")`, /ended with signal SIGKILL/],
    [
      "writes to the socket",
      `if (text === "bad") { writeSync(3, "what a nice socket"); await wait(10_000) }`,
      /its process sent a frame of \d+ bytes/,
    ],
    [
      "aborts it in work that nobody waits for",
      `if (text === "bad") { setImmediate(() => process.abort()); await wait(1_000) }`,
      /ended with signal SIGABRT/,
    ],
  ])("%s costs that response, with the cause", async (_, code, says) => {
    const fault = await faultAmongGood(await rewardOf(code), "bad");
    expect(fault.message).toMatch(says);
    expect(fault.message).toContain("reward-");
  });

  it("loops without end is ended in time, and the time is not the others'", async () => {
    const reward = await rewardOf(`if (text === "bad") for (;;); await wait(300)`, { rewardMs: 1_000 });
    const fault = await faultAmongGood(reward, "bad");
    expect(fault.message).toMatch(/computed for 1000 ms without giving way/);
    expect(failureKindOf(fault)).toBe("timeout");
  });

  it("fills the heap, or memory outside of it, reaches a limit", async () => {
    const heap = `if (text === "bad") for (const all = []; ; ) all.push(new Array(1e5).fill(all.length))`;
    const full = await faultAmongGood(await rewardOf(heap), "bad");
    expect(full.message).toMatch(/heap out of memory|grew to \d+ MiB, more than the limit of 256 MiB/);
    const outside = `if (text === "bad") for (const all = []; ; ) { all.push(Buffer.alloc(2 ** 25, 1)); if (all.length % 4 === 0) await wait(1) }`;
    const fault = await faultAmongGood(await rewardOf(outside), "bad");
    expect(fault.message).toMatch(/allocation failed|grew to \d+ MiB/);
  });

  it("throws, answers garbage or too much, or does not end, is named and costs no process", async () => {
    const code = `
      if (text === "throw") throw new RangeError("no room", { cause: new Error("the cause") });
      if (text === "text") return "0.5";
      if (text === "huge") return { reward: 1, metadata: { x: "x".repeat(1e6) } };
      if (text === "hang") await new Promise(() => {});
      if (text === "detached") { setTimeout(() => { throw new TypeError("from a timer"); }); await new Promise(() => {}); }
      if (text === "pid") return process.pid`;
    const reward = await rewardOf(code, { rewardMs: 700 });
    const [before] = await scored(reward, ["pid"]);
    const outcomes = await scored(reward, ["1", "throw", "text", "huge", "hang", "detached", "2"]);
    expect(outcomes.map(saidBy)).toEqual([
      1,
      "no room",
      expect.stringContaining('returned the text "0.5"; it must return a number'),
      expect.stringContaining("metadata"),
      expect.stringContaining("did not end within 700 ms"),
      "from a timer",
      2,
    ]);
    const { reason } = outcomes[1] as PromiseRejectedResult;
    expect(reason).toMatchObject({ name: "RangeError", cause: { message: "the cause" } });
    expect(reason.stack).toContain("reward-");
    expect((await scored(reward, ["pid"])).map(saidBy)).toEqual([saidBy(before!)]);
  });
});

describe("the process of a module", () => {
  it("that somebody kills is started again, and all that was in it is answered", async () => {
    const told: object[] = [];
    const logger = { ...silentLogger, warn: (fields: object) => void told.push(fields) };
    const pidFile = join(folder, "pid");
    const reward = await rewardOf(
      `if (!existsSync("${pidFile}")) { writeFileSync("${pidFile}", String(process.pid)); }; await wait(200)`,
      { logger },
    );
    const outcomes = scored(reward, around("4"));
    await vi.waitFor(() => expect(existsSync(pidFile)).toBe(true));
    process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
    expect((await outcomes).map(saidBy)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(told).toMatchObject([{ again: expect.any(Number), reason: expect.stringContaining("signal SIGKILL") }]);
  });

  it("that is ended by work which an answered response left behind costs nothing", async () => {
    const reward = await rewardOf(`if (text === "3") setTimeout(() => process.exit(9), 50); else await wait(150)`);
    expect((await scored(reward, around("4"))).map(saidBy)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it("whose module dies whenever it is loaded is started three times, and then the cause is told at once", async () => {
    const path = join(folder, `dies-${modules++}.mjs`);
    const starts = join(folder, "starts");
    writeFileSync(
      path,
      `import { appendFileSync } from "node:fs"; appendFileSync("${starts}", "x"); console.error("no licence"); process.exit(3);`,
    );
    const opening = openModuleReward(path, { config: moduleConfig(), env: {}, logger: silentLogger });
    await expect(opening).rejects.toThrow(/dies-.*exit code 3; it said last: no licence/);
    expect(readFileSync(starts, "utf8")).toBe("xxx");
  });

  it("has neither the credentials nor the settings of its sampler, and has what else is there", async () => {
    const env = { MUSTER_NATS_CREDENTIALS: "secret", NATS_PASSWORD: "secret", NODE_OPTIONS: "--title=no", OWN: "1" };
    const reward = await rewardOf(
      `if (process.env.MUSTER_NATS_CREDENTIALS || process.env.NATS_PASSWORD || process.title === "no") return -1; return Number(process.env.OWN)`,
      { env },
    );
    expect((await scored(reward, ["0"])).map(saidBy)).toEqual([1]);
  });

  it("is ended with what it started, and judges no more, when it is closed", async () => {
    const pidFile = join(folder, "child");
    const reward = await rewardOf(
      `const child = spawn("sleep", ["600"], { detached: true, stdio: "ignore" }); child.unref(); writeFileSync("${pidFile}", String(child.pid)); return process.pid`,
    );
    const [outcome] = await scored(reward, ["0"]);
    await reward.close?.();
    for (const pid of [saidBy(outcome!) as number, Number(readFileSync(pidFile, "utf8"))])
      await vi.waitFor(() => expect(isRunning(pid)).toBe(false));
    expect((await scored(reward, ["0"])).map(saidBy)).toEqual([expect.stringContaining("closed")]);
  });
});

describe("of 500 responses that are judged together", () => {
  it("one that ends the process costs one", async () => {
    const reward = await rewardOf(`if (text === "321") process.exit(9)`);
    const outcomes = await scored(
      reward,
      Array.from({ length: 500 }, (_, i) => String(i)),
    );
    expect(outcomes.flatMap(({ status }, i) => (status === "rejected" ? [i] : []))).toEqual([321]);
  });
});
