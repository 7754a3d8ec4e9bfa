/** `muster worker`: what authors of workers need before there is a job. */
import { writeFileSync } from "node:fs";
import { messageOf } from "@muster/base";
import { needsOfTask, taskOf } from "@muster/data";
import type { WorkerSelf, WorkerSubject } from "@muster/engine/worker";
import { exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { errors } from "../errors.ts";
import { cleanLine } from "../report/text.ts";
import { datesTrajectories, trajectoriesIn } from "../worker/trajectories.ts";
import { listed } from "./list.ts";

interface Options {
  readonly vocab: string;
  readonly context: string;
  readonly seconds: string;
  readonly out?: string;
  readonly trajectories?: string;
  readonly json?: boolean;
}

const dates = needsOfTask(taskOf("dates"));

/** Adds the commands. */
export function addWorkerCommands(program: Command): void {
  const worker = listed(program, "worker");
  withFacts(worker.command("check").description("run a worker through everything that a job relies on"))
    .option("--trajectories <file>", "what a reward is tried with: lines of JSON, each as task.reward is asked")
    .option("--json", "write one line of JSON: ok, what the worker is, and the checks")
    .action(async (words: string[], options: Options) => {
      process.exitCode = (await check(subjectOf(words, options), options)) ? exitCodes.ok : exitCodes.failed;
    });
  withFacts(worker.command("describe").description("print what a worker says of itself, for engine.worker.description"))
    .option("--out <file>", "write it there")
    .action(async (words: string[], options: Options) => {
      const { workerHello } = await import("@muster/engine/worker");
      const text = `${JSON.stringify(workerHello(subjectOf(words, options)))}\n`;
      if (options.out === undefined) process.stdout.write(text);
      else writeFileSync(options.out, text);
    });
}

function withFacts(command: Command): Command {
  return command
    .argument("<command...>", "program of the worker and its arguments, after --")
    .option("--vocab <number>", "token ids of the job's task", String(dates.vocab))
    .option("--context <number>", "longest prompt and response of the job's task, in tokens", String(dates.maxContext))
    .option("--seconds <number>", "time for each request", "60");
}

function subjectOf(words: readonly string[], { vocab, context, seconds, trajectories }: Options): WorkerSubject {
  const command = words.map((word) => (word.includes("'") ? `"${word}"` : `'${word}'`)).join(" ");
  const given = { vocab: numberOf("vocab", vocab), maxContext: numberOf("context", context) };
  return {
    table: { command, call_seconds: numberOf("seconds", seconds) },
    needs: { ...dates, ...given },
    trajectories:
      trajectories === undefined ? datesTrajectories(given.vocab) : trajectoriesIn(trajectories, given.vocab),
    env: process.env,
  };
}

/** Prints one line per check. @returns True when all hold. */
async function check(subject: WorkerSubject, { json }: Options): Promise<boolean> {
  const done: { readonly says: string; readonly fault: string | null }[] = [];
  const print = (text: string): void => {
    if (!json) process.stdout.write(`${text}\n`);
  };
  const take = (says: string, fault: string | null): void => {
    done.push({ says, fault });
    print(fault === null ? `ok    ${says}` : `FAIL  ${says}\n      ${fault}`);
  };
  const { isEngine, workerChecks } = await import("@muster/engine/worker");
  const titleOf = (description: WorkerSelf): string => {
    const what = `build ${description.build}: ${description.roles.join(" and ")}`;
    if (!isEngine(description)) return what;
    const { modelId, tensors, weightsBytes } = description;
    return `${modelId}, ${what}; tensors: ${tensors.length}, bytes: ${weightsBytes}`;
  };
  let worker: Pick<WorkerSelf, "roles" | "build"> | null = null;
  try {
    const { workerMemory } = await import("../composition/worker-memory.ts");
    const { description, checks } = workerChecks({ ...subject, sharedMemory: workerMemory });
    const { roles, build } = description;
    worker = { roles, build, ...(isEngine(description) ? { modelId: description.modelId } : {}) };
    print(`${titleOf(description)}\n`);
    take(greets, null);
    for (const { says, run } of checks) take(says, await faultOf(run));
  } catch (error) {
    take(greets, cleanLine(messageOf(error), faultMax));
  }
  const failed = done.filter(({ fault }) => fault !== null).length;
  print(failed === 0 ? `\nall ${done.length} checks hold` : `\n${failed} of ${done.length} checks do not hold`);
  if (json) process.stdout.write(`${JSON.stringify({ ok: failed === 0, worker, checks: done })}\n`);
  return failed === 0;
}

const greets = "protocol: starts, and says what it is within its time";
const faultMax = 600;

async function faultOf(run: () => Promise<void>): Promise<string | null> {
  try {
    await run();
    return null;
  } catch (error) {
    return cleanLine(messageOf(error), faultMax);
  }
}

function numberOf(option: string, value: string): number {
  const number = Number(value);
  if (Number.isSafeInteger(number) && number >= 1) return number;
  throw errors.OptionInvalid({ option, value, reason: "is no whole number from 1 on" });
}
