/** What the folder of a run says of it, for jobs that nobody can be asked about any more. */
import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { messageOf } from "@muster/base";
import { isRunning, partsIn } from "@muster/check/files";
import { z } from "zod";
import { pasted, wayTo } from "../composition/pasted.ts";
import { cleanLine } from "../report/text.ts";

/** A run as its folder shows it. Keys are those of the JSON output. */
export interface RunState {
  readonly job: string;
  /**
   * `running`: its process lives. `done`, `stopped`, `failed`: how the job ended. `interrupted`: its process is gone, the job is not
   * over. `unknown`: the folder has no events, e.g. of a job whose controller was started by hand.
   */
  readonly state: "running" | "done" | "stopped" | "failed" | "interrupted" | "unknown";
  readonly reason: string | null;
  /** Steps committed. */
  readonly step: number | null;
  readonly reward_last: number | null;
  readonly eval_last: number | null;
  readonly wall_s: number | null;
  /** Last start of the run, ISO 8601. */
  readonly started_at: string | null;
  readonly directory: string;
}

const summarySchema = z.object({
  reward_last: z.number().nullable(),
  eval_last: z.number().nullable(),
  wall_s: z.number(),
});

const eventSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("job.ended"),
    body: z.object({ outcome: z.enum(["done", "stopped", "failed"]), reason: z.string() }),
  }),
  z.object({ kind: z.literal("step.committed"), body: z.object({ step: z.number() }) }),
]);

/** Enough for the last events of any job. */
const tailBytes = 256 * 1024;

/** Describes the run in `directory`. A file that can not be read is the reason of an `unknown` state, never an error. */
export function describeRun(directory: string, job: string): RunState {
  const unknown: RunState = {
    job,
    state: "unknown",
    reason: null,
    step: null,
    reward_last: null,
    eval_last: null,
    wall_s: null,
    started_at: statSync(join(directory, "connection.json"), { throwIfNoEntry: false })?.mtime.toISOString() ?? null,
    directory,
  };
  try {
    const summary = summarySchema.safeParse(readJson(join(directory, "summary.json"))).data;
    return { ...unknown, ...summary, ...lastEvents(directory), ...(isRunning(directory) && { state: "running" }) };
  } catch (error) {
    return { ...unknown, reason: messageOf(error) };
  }
}

/** One sentence for a person. */
export function sayRun({ job, state, step, reason, directory }: RunState): string {
  const at = step === null ? "" : ` at step ${step}`;
  if (state === "interrupted")
    return `job ${job} was interrupted${at}; go on with: ${pasted("run", ...wayTo(job, dirname(directory)))}`;
  return `job ${job} is over: ${state}${at}${reason ? ` (${cleanLine(reason)})` : ""}; see ${join(directory, "report.html")}`;
}

/** The state by the last events: without an end the job can be taken up again. */
function lastEvents(directory: string): Partial<RunState> {
  const parts = partsIn(directory, "events");
  if (parts.length === 0) return {};
  // The newest part may have begun just now.
  const text = parts
    .slice(-2)
    .map((part) => tailOf(join(directory, part)))
    .join("\n");
  let found: Pick<RunState, "state" | "reason" | "step"> = { state: "interrupted", reason: null, step: null };
  for (const line of text.split("\n")) {
    const event = eventSchema.safeParse(parseLine(line)).data;
    if (event?.kind === "job.ended") found = { ...found, state: event.body.outcome, reason: event.body.reason };
    else if (event) found = { ...found, step: event.body.step };
  }
  return found;
}

/** A line that was cut, by the window or by a crash, is no line. */
function parseLine(line: string): unknown {
  return line.startsWith("{") && line.endsWith("}") ? JSON.parse(line) : null;
}

function readJson(path: string): unknown {
  return statSync(path, { throwIfNoEntry: false }) ? JSON.parse(readFileSync(path, "utf8")) : null;
}

/** The end of a file. */
function tailOf(path: string): string {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const buffer = Buffer.alloc(Math.min(size, tailBytes));
    const length = readSync(file, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString("utf8", 0, length);
  } finally {
    closeSync(file);
  }
}
