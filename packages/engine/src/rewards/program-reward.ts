/**
 * A reward that a program computes: one line of JSON to its standard input for each response, one line back, in any order. The program is started with
 * the first question, and again after it ended; it ends when its input does.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { dirname } from "node:path";
import { hasCode, messageOf, type RewardAnswer } from "@muster/base";
import type { Reward, RewardInput } from "../engine.ts";
import { errors } from "../errors.ts";
import { endMarked, ProcessMark } from "../programs/process-mark.ts";
import { answerMax, parsedAnswer, questionOf, quoted, rewardIn } from "./reward-wire.ts";

/** What a program said last on its standard error, in characters. */
const lastWordsMax = 2_000;

/** A program that ended without any answer is not started again for this long. */
const pauseMs = 1_000;

/** Time to end by itself once its input has ended. */
const endMs = 2_000;

interface Question {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Asks a program. What it does not answer because it ended, fails with its last words. */
export class ProgramReward implements Reward {
  readonly name: string;
  readonly #env: Readonly<Record<string, string | undefined>>;
  #run: Run | null = null;
  #asked = 0;
  #ended: { readonly atMs: number; readonly error: Error } | null = null;

  constructor(path: string, env: Readonly<Record<string, string | undefined>>) {
    this.name = path;
    this.#env = env;
  }

  async score(input: RewardInput, signal: AbortSignal): Promise<RewardAnswer> {
    signal.throwIfAborted();
    const id = ++this.#asked;
    const run = this.#running();
    const leave = (): void => {
      run.forget(id, signal.reason);
      // Who lets a whole deadline pass hangs, perhaps for ever; what comes next begins with a new one.
      if (isDeadline(signal.reason) && run.isSilentSince(id)) this.#replace(run);
    };
    signal.addEventListener("abort", leave, { once: true });
    try {
      return rewardIn(await run.ask(id, questionOf(input)), this.name);
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  async close(): Promise<void> {
    await this.#run?.close();
  }

  #replace(run: Run): void {
    if (this.#run === run) this.#run = null;
    run.kill();
  }

  #running(): Run {
    if (this.#run) return this.#run;
    if (this.#ended && performance.now() - this.#ended.atMs < pauseMs) throw this.#ended.error;
    const run = new Run(this.name, this.#env, (error) => {
      if (this.#run === run) this.#run = null;
      this.#ended = run.hasAnswered ? null : { atMs: performance.now(), error };
    });
    this.#run = run;
    return run;
  }
}

function isDeadline(reason: unknown): boolean {
  return ["TRAJECTORY_TIMEOUT", "DEADLINE_EXPIRED"].some((word) => hasCode(reason, `MUSTER_ERR_${word}`));
}

/** One life of the program. */
class Run {
  hasAnswered = false;
  readonly #path: string;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #open = new Map<number, Question>();
  readonly #over: Promise<void>;
  #newestAnswered = 0;
  #isOver = false;
  #line = "";
  #lastWords = "";

  constructor(path: string, env: Readonly<Record<string, string | undefined>>, onEnd: (error: Error) => void) {
    this.#path = path;
    const mark = new ProcessMark();
    const [program = "", ...args] = mark.words([path]);
    this.#child = spawn(program, args, { cwd: dirname(path), stdio: "pipe", env: { ...env, ...mark.env } });
    // What it started goes with it, wherever that went; it may hold the pipes, without whose end nothing is over.
    this.#child.once("exit", () => endMarked(mark));
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-lastWordsMax);
      process.stderr.write(text);
    });
    // Of a broken pipe the end of the process says more.
    this.#child.stdin.on("error", () => {});
    this.#over = new Promise((resolve) => {
      const end = (reason: string): void => {
        // One that can not be started ends twice, and the second end has no reason.
        if (this.#isOver) return;
        this.#isOver = true;
        const said = this.#lastWords.trim();
        const error = errors.RewardProgramEnded({ path, reason: said === "" ? reason : `${reason}; it said: ${said}` });
        onEnd(error);
        for (const { reject } of this.#open.values()) reject(error);
        this.#open.clear();
        resolve();
      };
      this.#child.once("error", (error) => end(messageOf(error)));
      this.#child.once("close", (code, signal) => end(signal ? `signal ${signal}` : `exit code ${code}`));
    });
  }

  ask(id: number, question: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#open.set(id, { resolve, reject });
      this.#child.stdin.write(`${JSON.stringify({ id, ...question })}\n`);
    });
  }

  /** Nobody waits for this answer any more. */
  forget(id: number, reason: unknown): void {
    this.#open.get(id)?.reject(reason);
    this.#open.delete(id);
  }

  /** True when nothing that was asked since this question is answered. */
  isSilentSince(id: number): boolean {
    return this.#newestAnswered < id;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    const late = setTimeout(() => this.kill(), endMs);
    await this.#over;
    clearTimeout(late);
  }

  #hear(text: string): void {
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop() ?? "";
    for (const line of lines) this.#take(line);
    if (this.#line.length <= answerMax) return;
    this.#lastWords = `a line of more than ${answerMax} characters on its standard output`;
    this.kill();
  }

  #take(line: string): void {
    if (line.trim() === "") return;
    const answer = answerIn(line, this.#path);
    if (typeof answer === "string") {
      this.#lastWords = `${answer}: ${quoted(line)}`;
      this.kill();
      return;
    }
    this.hasAnswered = true;
    this.#newestAnswered = Math.max(this.#newestAnswered, answer.id);
    const question = this.#open.get(answer.id);
    this.#open.delete(answer.id);
    question?.resolve(answer);
  }
}

/** An answer with its id, or what is wrong with a line: what a program prints by the way belongs on its standard error. */
function answerIn(line: string, name: string): { readonly id: number } | string {
  let answer: { readonly id?: unknown } | null;
  try {
    answer = parsedAnswer(line, name) as typeof answer;
  } catch {
    return "a line on its standard output that is no JSON";
  }
  const id = answer?.id;
  return typeof id === "number" && Number.isSafeInteger(id)
    ? { ...answer, id }
    : "an answer without the id of its question";
}
