/** Worker threads for several cores: each runs one seed, or one deliberate bug, at a time. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { messageOf } from "@muster/base";
import type { CanaryResult } from "../canaries/run-canaries.ts";
import { errors } from "../errors.ts";
import type { Profile } from "./draw-scenario.ts";
import type { SeedRunner } from "./run-many.ts";
import type { SeedResult } from "./tally.ts";

/** What a worker is asked for. */
export type Task =
  | { readonly type: "seed"; readonly seed: number; readonly profile: Profile; readonly isRepeated: boolean }
  | { readonly type: "canary"; readonly name: string };

/** What it says. */
export type Answer = { readonly value: SeedResult | CanaryResult } | { readonly failed: string };

/** New objects die young in a simulation: with room for them a collection finds next to nothing that lives. */
const youngMegabytes = 64;

/** One worker. */
export interface SimWorker {
  readonly runSeed: SeedRunner;
  /** Runs seeds with a deliberate bug until the checkers see it. */
  runCanary(name: string): Promise<CanaryResult>;
  close(): Promise<void>;
}

/** Starts a worker. @throws MUSTER_ERR_SIM_WORKER when the simulator is not built. */
export function startWorker(): SimWorker {
  const worker = new Worker(threadFile(), {
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb: youngMegabytes },
  });
  worker.unref();
  const ask = (task: Task): Promise<SeedResult | CanaryResult> =>
    new Promise((resolve, reject) => {
      const what = task.type === "seed" ? `${task.profile} seed ${task.seed}` : task.name;
      const end = (settle: () => void): void => {
        worker.off("message", hear).off("error", broke).off("exit", gone);
        worker.unref();
        settle();
      };
      const fail = (reason: string): void => end(() => reject(errors.SimWorker({ reason: `${what}: ${reason}` })));
      const broke = (error: unknown): void => fail(messageOf(error));
      const hear = (answer: Answer): void =>
        "failed" in answer ? fail(answer.failed) : end(() => resolve(answer.value));
      const gone = (code: number): void => fail(`the worker ended with code ${code}`);
      worker.ref();
      worker.on("message", hear).once("error", broke).once("exit", gone);
      worker.postMessage(task);
    });
  return {
    runSeed: async (seed, profile, { isRepeated }) =>
      (await ask({ type: "seed", seed, profile, isRepeated })) as SeedResult,
    runCanary: async (name) => (await ask({ type: "canary", name })) as CanaryResult,
    close: async () => void (await worker.terminate()),
  };
}

/** The compiled thread: beside this file when compiled, in `dist` when this file runs from source. */
function threadFile(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = new URL(fromSource ? "../../dist/seed/thread.js" : "./thread.js", import.meta.url);
  if (!existsSync(file)) throw errors.SimWorker({ reason: `${fileURLToPath(file)} is missing; run npm run build` });
  return file;
}
