/** The thread of one worker: runs the seed, or the deliberate bug, that it is asked for, and says what came of it. */
import { parentPort } from "node:worker_threads";
import { messageOf } from "@muster/base";
import { canaries, runCanary } from "../canaries/run-canaries.ts";
import { runSeed } from "./run-seed.ts";
import type { Answer, Task } from "./workers.ts";

parentPort?.on("message", (task: Task) => {
  void answerTo(task).then((answer) => parentPort?.postMessage(answer));
});

async function answerTo(task: Task): Promise<Answer> {
  try {
    if (task.type === "seed") return { value: await runSeed(task.seed, task.profile, { isRepeated: task.isRepeated }) };
    const canary = canaries.find(({ name }) => name === task.name);
    if (!canary) return { failed: `no deliberate bug is called ${task.name}` };
    return { value: await runCanary(canary) };
  } catch (error) {
    return { failed: `${messageOf(error)}` };
  }
}
