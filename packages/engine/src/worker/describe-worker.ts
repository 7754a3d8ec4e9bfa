/**
 * What a worker is, asked before there is a job: it is started, greeted on its standard input, and ended. Once per process and question, because a
 * trainer takes seconds to import.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { messageOf } from "@muster/base";
import type { ModelNeeds } from "@muster/data";
import { errors } from "../errors.ts";
import { endMarked, ProcessMark } from "../programs/process-mark.ts";
import { describedIn, type WorkerSelf } from "./description.ts";
import { FrameReader, frameOf } from "./frames.ts";
import { helloTo } from "./link.ts";
import type { WorkerOptions } from "./options.ts";

const known = new Map<string, WorkerSelf>();
const knownMax = 64;
const outFd = 3;
/** Room for the largest table. */
const helloMax = 64 * 2 ** 20;

/**
 * Describes the worker of a job.
 *
 * @throws MUSTER_ERR_WORKER_LOST when it can not be started or says nothing in time, MUSTER_ERR_WORKER_PROTOCOL, MUSTER_ERR_WORKER_REFUSES,
 *   MUSTER_ERR_WORKER_COMMAND for a file that is no description
 */
export function describeWorker(options: WorkerOptions, needs: ModelNeeds): WorkerSelf {
  const key = JSON.stringify([options.command, options.description, needs]);
  const found = known.get(key);
  if (found) return found;
  const said = options.description === null ? saidBy(options, needs) : [helloIn(options.description)];
  const described = describedIn(said);
  if (known.size >= knownMax) known.clear();
  known.set(key, described);
  return described;
}

/** The hello of a worker, as it said it; with the rows of its tensor table, where they came in messages of their own. */
export function helloOf(...asked: Parameters<typeof saidBy>): object {
  const [hello, ...pages] = saidBy(...asked);
  return withRows(hello, pages);
}

/** What a worker says when it is asked what it is: its hello, and what follows it. */
function saidBy(
  { command, times }: Pick<WorkerOptions, "command" | "times">,
  needs: ModelNeeds,
  protocols?: readonly number[],
): readonly [object, ...object[]] {
  const { vocab, maxContext, tokenizer } = needs;
  const mark = new ProcessMark();
  const [program = "", ...args] = mark.words(command.words);
  const asked = spawnSync(program, args, {
    input: frameOf(helloTo({ role: "describe", vocab, maxContext, tokenizer }, protocols)),
    stdio: ["pipe", 2, "pipe", "pipe"],
    ...(command.directory === undefined ? {} : { cwd: command.directory }),
    env: {
      ...command.env,
      MUSTER_WORKER_IN: "0",
      MUSTER_WORKER_OUT: String(outFd),
      ...mark.env,
    },
    timeout: times.startMs,
    killSignal: "SIGKILL",
    maxBuffer: helloMax,
  });
  endMarked(mark);
  const said = asked.output?.[outFd];
  try {
    const [hello, ...pages] = said ? new FrameReader().take(Buffer.from(said)) : [];
    if (hello) return [hello, ...pages];
  } catch (error) {
    throw errors.WorkerProtocol({ reason: `it sent ${messageOf(error)}` }, error);
  }
  const last = String(asked.stderr ?? "")
    .trim()
    .split("\n")
    .slice(-3)
    .join(" / ")
    .slice(-500);
  throw errors.WorkerLost({
    command: command.words.join(" "),
    reason: whySilent(asked, times.startMs),
    words: last === "" ? "it said nothing" : `it said last: ${last}`,
  });
}

function whySilent({ error, signal, status }: ReturnType<typeof spawnSync>, startMs: number): string {
  if ((error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT")
    return `it did not say hello within ${startMs} ms`;
  return error ? messageOf(error) : `it ended with ${signal ?? `exit code ${status}`} and said no hello`;
}

/** A hello with the rows that followed it. What is wrong with them is not said here. */
function withRows(hello: object, pages: readonly object[]): object {
  const { tensorRows, ...rest } = hello as { readonly tensorRows?: unknown };
  if (tensorRows === undefined || pages.length === 0) return hello;
  const rows = pages.flatMap((page) => ("rows" in page && Array.isArray(page.rows) ? page.rows : []));
  return rows.length === tensorRows ? { ...rest, tensors: rows } : hello;
}

function helloIn(path: string): object {
  try {
    const hello: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (typeof hello === "object" && hello !== null) return hello;
  } catch (error) {
    const rule = `a file that muster worker describe wrote (${messageOf(error)})`;
    throw errors.WorkerCommand({ field: "description", value: path, rule }, error);
  }
  throw errors.WorkerCommand({ field: "description", value: path, rule: "a file with one JSON object" });
}
