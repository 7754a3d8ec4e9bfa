/** Rewards that a worker computes: in batches, and whatever it does costs the trajectory that made it do so. About 5 s: each is a process. */
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { messageOf, numberOfAnswer } from "@muster/base";
import { needsOfTask, taskOf } from "@muster/data";
import type { ScorerConfig } from "@muster/protocol";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { failureKindOf } from "../src/collect/failure-kind.ts";
import type { Reward, RewardInput } from "../src/index.ts";
import { openWorkerReward } from "../src/rewards/worker-reward.ts";
import type { WorkerSelf } from "../src/worker/description.ts";
import type { OpenWorker } from "../src/worker/open-link.ts";
import { scorerOptionsOf } from "../src/worker/options.ts";
import { Scorer } from "../src/worker/scorer.ts";
import { scorerConfigOf } from "./worker-fixture.ts";

vi.setConfig({ testTimeout: 20_000 });

const program = "odd-reward.mjs";
const needs = needsOfTask(taskOf("dates"));
const never = new AbortController().signal;

const asked = (responseText: string): RewardInput => ({
  prompt: { ids: Int32Array.of(1), text: "1+1=", answer: "2", row: { bonus: 1 } },
  ...{ responseIds: Int32Array.of(2), responseText, finish: "stop" },
});

const opened: Reward[] = [];
afterEach(async () => {
  for (const reward of opened.splice(0)) await reward.close?.();
});

async function reward(settings: Partial<ScorerConfig> = {}, mode = "good"): Promise<Reward> {
  const one = await openWorkerReward(scorerConfigOf(program, mode, settings), needs, process.env);
  opened.push(one);
  return one;
}

type Outcome = number | { readonly message: string; readonly kind: string };

async function outcomes(judge: Reward, texts: readonly string[], signal = never): Promise<readonly Outcome[]> {
  return await Promise.all(
    texts.map(async (text): Promise<Outcome> => {
      try {
        return numberOfAnswer(await judge.score(asked(text), signal));
      } catch (error) {
        return { message: (error as Error).message, kind: failureKindOf(error) };
      }
    }),
  );
}

describe("a worker judges", () => {
  it("what is asked together in one request, in order, of at most so many", async () => {
    const judge = await reward({ batch: 3 });
    expect(await outcomes(judge, ["a", "batch-size", "ccc", "requests", "batch-size"])).toEqual([1, 3, 3, 2, 2]);
  });

  it("in several requests what does not fit into its region, and not at all what can not", async () => {
    const judge = await reward({ arenaBytes: 4096 });
    const long = "x".repeat(1500);
    expect(await outcomes(judge, [long, long, long, "requests"])).toEqual([1500, 1500, 1500, 2]);
    const [huge, next] = await outcomes(judge, ["x".repeat(5000), "a"]);
    expect(huge).toMatchObject({
      kind: "user_error",
      message: expect.stringMatching(/do not fit.*reward\.worker\.arena/),
    });
    expect(next).toBe(1);
  });
});

const mates = ["a", "bb", "ccc"] as const;

describe("a response costs itself and none beside it that", () => {
  it.each([
    ["error", {}, "user_error", /failed: no such row/],
    ["null", {}, "user_error", null],
    ["shape", {}, "user_error", /answered "fine"; it must/],
    ["fails", {}, "user_error", /score failed in the worker \(failed\): no memory/],
    ["exit", {}, "transport", /gone: it ended with exit code 7; it said last: CUDA error/],
    ["garbage", {}, "user_error", /a frame of \d+ bytes, and it must have 2 to 4194304/],
    ["endless", {}, "user_error", /a frame of \d+ bytes/],
    ["other", {}, "user_error", /an answer to request \d+, which was never asked/],
    ["short", {}, "user_error", /it gave 2 scores for 1 trajectories/],
    ["silent", { callMs: 300 }, "timeout", /a request to the reward worker did not end within 300 ms/],
    ["hang", { silenceMs: 300 }, "transport", /did not answer a ping within 300 ms/],
    ["grow", { memoryBytes: 300 * 2 ** 20 }, "transport", /it grew to \d+ MiB, more than the limit of 300 MiB/],
  ])("makes its worker do: %s", async (word, settings, kind, message) => {
    const judge = await reward(settings);
    const [one, odd, two, three] = await outcomes(judge, [mates[0], word, mates[1], mates[2]]);
    expect([one, two, three]).toEqual([1, 2, 3]);
    if (message) expect(odd).toMatchObject({ kind, message: expect.stringMatching(message) });
    else expect(odd).toBeNull(); // no number: whoever collects refuses it
    expect(await outcomes(judge, mates)).toEqual([1, 2, 3]);
  });

  it("a second answer to a request ends the worker, and the next request meets a new one", async () => {
    const judge = await reward();
    expect(await outcomes(judge, ["a", "twice"])).toEqual([1, 5]);
    expect(await outcomes(judge, mates)).toEqual([1, 2, 3]);
  });
});

describe("a worker that can not begin", () => {
  it.each([
    ["has another role", "trainer", {}, /can not be a reward/],
    ["refuses", "refuses", {}, /refuses this job: no model of mine is here/],
    ["has another build", "good", { build: "odd-2" }, /build than it said: odd-1, and the job has odd-2/],
  ])("since it %s says so at once", async (_, mode, settings, message) => {
    await expect(reward(settings, mode)).rejects.toThrow(message);
  });
});

it("a request whose trajectories are all given up is cancelled, and the worker judges on", async () => {
  const judge = await reward();
  const stop = new AbortController();
  const heard = vi.spyOn(process.stderr, "write");
  const given = outcomes(judge, ["silent", "a"], stop.signal);
  await vi.waitUntil(() => heard.mock.calls.some(([text]) => String(text).includes("asked, and silent")), 5_000);
  heard.mockRestore();
  stop.abort(new Error("over"));
  expect(await given).toEqual([
    { message: "over", kind: "user_error" },
    { message: "over", kind: "user_error" },
  ]);
  expect(await outcomes(judge, ["requests"])).toEqual([2]);
});

it("is ended by close, and what is asked afterwards is refused", async () => {
  const judge = await reward();
  await judge.close?.();
  expect(await outcomes(judge, ["a"])).toMatchObject([{ message: expect.stringMatching(/closed/) }]);
});

it("tells who waits for it that its next life is starting, and nothing before and after", async () => {
  const folder = await makeTempDirectory();
  const judge = await reward({}, `slow-next '${folder.path}/started'`);
  let told = 0;
  judge.onStarting?.(() => told++);
  expect(await outcomes(judge, ["a"])).toEqual([1]);
  await outcomes(judge, ["exit"]);
  expect(told).toBe(0);
  expect(await outcomes(judge, ["bb"])).toEqual([2]);
  const inAll = told;
  expect(inAll).toBeGreaterThan(0);
  await outcomes(judge, ["silent"], AbortSignal.timeout(1_100));
  expect(told).toBe(inAll);
  await folder.remove();
});

it("leaves no worker behind when it is closed while the next one is to begin in the place of a dead one", async () => {
  const mark = `mark-${randomUUID()}`;
  const workers = (): readonly string[] =>
    readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(mark));
  let link: OpenWorker<WorkerSelf>["link"] | undefined;
  const scorer = await Scorer.open<string, string>({
    ...{
      role: "reward",
      worker: scorerOptionsOf(scorerConfigOf(program, `good ${mark}`), process.env),
      needs,
      batch: 1,
    },
    bytesOf: () => 1,
    ask: async (worker, items) => {
      link = worker.link;
      return items;
    },
  });
  expect(await scorer.score("a", never)).toBe("a");
  const [pid] = workers();
  process.kill(Number(pid), "SIGKILL");
  await link?.lost;
  const given = scorer.score("b", never).catch(messageOf);
  await setImmediate(); // it is asked for now, and the dead one is cleared away first
  await scorer.close();
  expect(await given).toMatch(/closed/);
  expect(workers()).toEqual([]);
});

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // it has ended since
  }
}
