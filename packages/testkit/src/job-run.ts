/** Whole jobs under test: the command line in processes of its own, its events as they come, its actors by name. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Body, KindOf } from "@muster/protocol";
import { type ActorProcess, type ActorProcessOptions, spawnActor } from "./actor-process.ts";
import { isProcessOf, type JobActor, processesNaming } from "./processes.ts";
import { waitFor } from "./wait-for.ts";

const muster = fileURLToPath(new URL("../../cli/bin/muster.mjs", import.meta.url));

/** A public event of a job in `events.jsonl`: its body, with the event's own kind and time. */
export type JobEvent<K extends KindOf<"event"> = KindOf<"event">> = Extract<AnyJobEvent, { readonly kind: K }>;

type AnyJobEvent = {
  [K in KindOf<"event">]: Body<K> & { readonly kind: K; readonly at_ms: number };
}[KindOf<"event">];

/** The part of a run's summary that tests look at; all of it is in `summary.json`. */
export interface JobSummary {
  readonly steps: number;
  readonly reward_first: number | null;
  readonly reward_last: number | null;
  readonly held_out_loss_first: number | null;
  readonly held_out_loss_last: number | null;
  readonly eval_last: number;
  readonly weight_version: number;
  readonly weights_hash: string;
  readonly ledger: Readonly<Record<"admitted" | "trained" | "aborted" | "quarantined" | "pending", number>>;
  readonly lost: number;
  readonly doubled: number;
  readonly wall_s: number;
  readonly tokens_per_s: number;
  readonly incidents: readonly { readonly kind: string; readonly subject: string; readonly detail: string }[];
}

/** A job that `muster run` runs. */
export interface JobRun {
  readonly job: string;
  /** The run's folder. */
  readonly directory: string;
  readonly process: ActorProcess;
  /** Events so far. */
  events<K extends KindOf<"event">>(...kinds: K[]): readonly JobEvent<K>[];
  /** Waits for an event; fails at once when the run ends without it. Default deadline 30 s. */
  waitForEvent<K extends KindOf<"event">>(
    kind: K,
    isMeant?: (event: JobEvent<K>) => boolean,
    timeoutMs?: number,
  ): Promise<JobEvent<K>>;
  /** Process id of an actor of the run by its id, or of `nats-server`. */
  pidOf(id: string): number;
  /** Waits for the end. @throws Error with the last lines when the run ends with another code than `code`. */
  ended(code?: number): Promise<JobSummary>;
}

/** Where and how to run a job. */
export interface JobRunOptions {
  /** Folder of the runs; the job's folder is made in it. */
  readonly runs: string;
  readonly job: string;
  /** Arguments after `muster run <file>`. */
  readonly args?: readonly string[];
  /** Added to the environment of the test. */
  readonly env?: ActorProcessOptions["env"];
  readonly file: string;
}

/** Starts `muster` with any arguments; `env` is added to the environment of the test. */
export function spawnMuster(
  args: readonly string[],
  { env }: Pick<ActorProcessOptions, "env"> = {},
): Promise<ActorProcess> {
  return spawnActor({ command: process.execPath, args: [muster, ...args], ...(env ? { env } : {}) });
}

/** Starts `muster run`. The packages must be built. */
export async function startJobRun({ runs, job, file, args = [], env }: JobRunOptions): Promise<JobRun> {
  const directory = join(runs, job);
  const command = ["run", file, "--runs", runs, "--job", job, "--json", "--quiet", ...args];
  const run = await spawnMuster(command, env ? { env } : {});
  const over = new AbortController();
  void run.exited.then((exit) => over.abort(exit));
  const events = <K extends KindOf<"event">>(...kinds: K[]): readonly JobEvent<K>[] =>
    readEvents(join(directory, "events.jsonl")).filter((event): event is JobEvent<K> =>
      (kinds as readonly string[]).includes(event.kind),
    );
  return {
    job,
    directory,
    process: run,
    events,
    async waitForEvent(kind, isMeant = () => true, timeoutMs = 30_000) {
      const detail = () => [
        over.signal.reason,
        ...run.lines.slice(-5),
        ...readEvents(join(directory, "events.jsonl")).slice(-8),
      ];
      const found = await waitFor(() => events(kind).find(isMeant) ?? (over.signal.aborted && "ended"), {
        what: `an event ${kind} of ${job}`,
        timeoutMs,
        detail,
      });
      if (found === "ended") throw new Error(`${job} ended without the event ${kind}: ${JSON.stringify(detail())}`);
      return found;
    },
    pidOf: (id) => pidOfActor({ runs, job, id }),
    async ended(code = 0) {
      const { code: seen, signal } = await run.exited;
      if (seen !== code) throw new Error(`${job} ended with ${signal ?? seen}: ${run.lines.slice(-10).join("\n")}`);
      return summaryOf({ directory });
    },
  };
}

/** The summary in the folder of a run that has ended. */
export function summaryOf({ directory }: Pick<JobRun, "directory">): JobSummary {
  return JSON.parse(readFileSync(join(directory, "summary.json"), "utf8")) as JobSummary;
}

function readEvents(path: string): readonly JobEvent[] {
  if (!existsSync(path)) return [];
  // The last line may be half written.
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => {
    const { body, ...around } = JSON.parse(line) as { readonly body: object };
    return { ...body, ...around } as JobEvent;
  });
}

/** Process id of an actor of a running job, or of `nats-server`. @throws Error when it is not there. */
export function pidOfActor(actor: JobActor): number {
  const { id, job, runs } = actor;
  const directory = join(runs, job);
  const isServer = (args: readonly string[]): boolean =>
    id === "nats-server" && args[0] !== "sh" && args.includes(join(directory, "nats", "server.conf"));
  const found = processesNaming(runs).find(({ args }) => isProcessOf(args, actor) || isServer(args));
  if (!found) throw new Error(`no process of ${id} in ${job}`);
  return found.pid;
}
