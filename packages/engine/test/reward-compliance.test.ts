/** The checks of reward workers: the one of the examples holds them, and each is broken by somebody. About 5 s: each starts a process. */
import { messageOf } from "@muster/base";
import { needsOfTask, taskOf } from "@muster/data";
import { beforeEach, describe, expect, it } from "vitest";
import type { RewardInput } from "../src/index.ts";
import { workerChecks } from "../src/worker/index.ts";
import { hasPython, noPython, pythonWorker, supportCommand } from "./worker-fixture.ts";

const trajectories = ["1999-01-02$", "2000", ""].map(
  (responseText): RewardInput => ({
    prompt: { ids: Int32Array.of(1, 2), text: "2 january 1999>", answer: "1999-01-02" },
    ...{ responseIds: Int32Array.of(3), responseText, finish: "stop" },
  }),
);

const checksOf = (table: Readonly<Record<string, string>>) =>
  workerChecks({ table, needs: needsOfTask(taskOf("dates")), env: process.env, trajectories }).checks;

describe("the worker examples/reward-worker", () => {
  beforeEach((context) => context.skip(!hasPython, noPython));

  const judge = pythonWorker("reward-worker/judge.py");
  const checks = hasPython ? checksOf(judge) : [{ says: "is not tried", run: async () => {} }];
  it.each(checks)("$says", ({ run }) => run());
});

describe("a worker is found out that", () => {
  it.each([
    ["counts", "judges: equal trajectories have equal scores", /scores in another order/],
    ["errors", "judges: gives each trajectory", /all 3 trajectories have errors, the first: .*no such row/],
    ["texts", "judges: gives each trajectory", /returned the text "1"; it must return a number/],
    ["no-empty", "judges: goes on after responses that are empty", /ended with exit code 5/],
  ])("does: %s", async (mode, says, fault) => {
    const checks = checksOf({ command: supportCommand("odd-reward.mjs", mode) });
    const check = checks.find((one) => one.says.startsWith(says));
    const found = await check?.run().then(() => "nothing", messageOf);
    expect(found).toMatch(fault);
  });
});
