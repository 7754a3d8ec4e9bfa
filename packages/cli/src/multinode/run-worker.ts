/** `muster run --worker R`: joins a master, and keeps a node running that runs what the controller places on this host. */
import { readFileSync, statSync } from "node:fs";
import { join as joinPath } from "node:path";
import { type Clock, messageOf } from "@muster/base";
import { checkId } from "@muster/protocol";
import { createLogger, type ExitCode, exitCodes, type LogLevel, makeOwnFolderSync, systemClock } from "@muster/runtime";
import { writeSecretFile } from "../composition/connection.ts";
import { errors } from "../errors.ts";
import { type ChildExit, type Children, superviseChildren } from "../run/children.ts";
import { type JoinEnd, type Joined, type JoinOptions, join, openTunnel, type Tunnel } from "./join.ts";
import type { Admission } from "./master.ts";

/** What a worker is made from. */
export interface WorkerOptions extends Omit<JoinOptions, "clock" | "onNews"> {
  /** Folder of runs on this host. */
  readonly runs: string;
  /** As `muster node --devices` takes it; absent for those that are found. */
  readonly devices?: string;
  readonly logLevel: LogLevel;
  readonly onNews: (line: string) => void;
}

/** How a worker ended. */
export interface WorkerEnd {
  readonly exitCode: ExitCode;
  readonly words: string;
}

/** Time for replicas that leave. */
const leaveMs = 3_000;
const endMs = 10_000;

const endCodes: Readonly<Record<Extract<JoinEnd, { readonly kind: "ended" }>["outcome"], ExitCode | null>> = {
  done: exitCodes.ok,
  stopped: exitCodes.ok,
  failed: exitCodes.failed,
  // The same command at the master goes on with the job.
  interrupted: null,
};

/** Runs until the job is over, its node was released, or the signal is aborted. Everything that it started has ended when this returns or throws. */
export async function runWorker(options: WorkerOptions): Promise<WorkerEnd> {
  const tunnel = await openTunnel(options);
  const worker = new Worker(options, tunnel);
  try {
    return await worker.run();
  } finally {
    await worker.close();
    tunnel.close();
  }
}

class Worker {
  readonly #options: WorkerOptions;
  readonly #tunnel: Tunnel;
  readonly #clock: Clock = systemClock();
  readonly #nodeEnd: Promise<WorkerEnd>;
  #endNode: (end: WorkerEnd) => void = () => {};
  #children: Children | null = null;
  readonly #over = new AbortController();
  #text = "";
  #joined: Joined | null = null;

  constructor(options: WorkerOptions, tunnel: Tunnel) {
    this.#options = options;
    this.#tunnel = tunnel;
    this.#nodeEnd = new Promise((resolve) => {
      this.#endNode = resolve;
    });
  }

  async run(): Promise<WorkerEnd> {
    for (;;) {
      const signal = AbortSignal.any([this.#options.signal, this.#over.signal]);
      const joined = await Promise.race([join({ ...this.#options, signal, clock: this.#clock }), this.#nodeEnd]);
      if ("exitCode" in joined) return joined;
      this.#joined = joined;
      const { job } = joined.admission;
      const rank = `rank ${this.#options.rank}`;
      await this.#follow(joined.admission);
      const end = await Promise.race([joined.over, this.#nodeEnd, aborted(this.#options.signal)]);
      if ("exitCode" in end) return await this.#lastWord(joined, end);
      const exitCode = end.kind === "ended" ? endCodes[end.outcome] : null;
      if (exitCode !== null && end.kind === "ended") {
        await this.#untilNodeEnds();
        return { exitCode, words: `job ${job} is over: ${end.outcome}${end.reason ? ` (${end.reason})` : ""}` };
      }
      this.#options.onNews(`${rank} lost the master of job ${job}: ${end.reason}; it waits for it to come back`);
    }
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#children?.stop(leaveMs);
    this.#joined?.leave();
  }

  /** The node may hear first that the job is over; what the master says of that is the better word. */
  async #lastWord({ admission, over }: Joined, end: WorkerEnd): Promise<WorkerEnd> {
    if (end.exitCode !== exitCodes.ok) return end;
    const said = await Promise.race([over, after(this.#clock, endMs)]);
    if (said === null || said.kind === "lost") return end;
    return { exitCode: endCodes[said.outcome] ?? exitCodes.ok, words: `job ${admission.job} is over: ${said.outcome}` };
  }

  /** Starts the node, and starts it anew where the job or its keys are others than before. */
  async #follow(admission: Admission): Promise<void> {
    const { runs, rank, onNews } = this.#options;
    const job = checkId("job", admission.job);
    const directory = joinPath(runs, job);
    const path = joinPath(directory, `rank-${rank}.json`);
    const text = connectionOf(admission, this.#tunnel.url);
    const isSame = this.#children !== null && this.#text === text && isThere(path, text);
    onNews(`rank ${rank} is in job ${job}: ${admission.capacity}; logs: ${joinPath(directory, "logs")}`);
    if (isSame) return;
    await this.#children?.stop(leaveMs);
    makeOwnFolderSync(directory);
    makeOwnFolderSync(joinPath(directory, "logs"));
    writeSecretFile(path, text);
    this.#text = text;
    this.#children = this.#start(directory, { job, path, capacity: admission.capacity });
  }

  #start(directory: string, { job, path, capacity }: { job: string; path: string; capacity: string }): Children {
    const { runs, rank, devices, logLevel } = this.#options;
    const id = `node-${rank}`;
    const log = joinPath(directory, "logs", `rank-${rank}.log`);
    const logger = createLogger({ level: logLevel, destination: { path: log }, base: { job, role: "rank", rank } });
    const children = superviseChildren({
      ...{ directory, clock: this.#clock, logger },
      onExit: (exit) => this.#exited(exit, directory),
      onGivenUp: (exit) =>
        this.#endNode({ exitCode: exitCodes.failed, words: `${id} keeps ending${sayingOf(exit, directory)}` }),
    });
    const named = devices === undefined ? [] : ["--devices", devices];
    const where = ["--job", job, "--runs", runs, "--connection", path];
    const args = [
      "node",
      "--id",
      id,
      "--capacity",
      capacity,
      ...named,
      ...where,
      "--supervised",
      "--log-level",
      logLevel,
    ];
    children.start({ id, args });
    return children;
  }

  #exited(exit: ChildExit, directory: string): void {
    if (exit.code === exitCodes.ok) this.#endNode({ exitCode: exitCodes.ok, words: `${exit.id} was released` });
    else if (exit.code === exitCodes.badInput)
      this.#endNode({ exitCode: exitCodes.badInput, words: `${exit.id} can not join${sayingOf(exit, directory)}` });
    else this.#options.onNews(`${exit.id} ended${sayingOf(exit, directory)}; it is started again`);
  }

  async #untilNodeEnds(): Promise<void> {
    await Promise.race([this.#nodeEnd, after(this.#clock, endMs)]);
  }
}

/** What a process said last, or where to look. */
function sayingOf({ id, words }: ChildExit, directory: string): string {
  return words === undefined ? `; see ${joinPath(directory, "logs", `${id}.log`)}` : `: ${words}`;
}

/** The connection file of this host: that of the master, with the address at which its broker is reached here. @throws MUSTER_ERR_JOIN_REFUSED */
function connectionOf({ connection, tunnel }: Admission, url: string): string {
  try {
    return `${JSON.stringify({ ...JSON.parse(connection), ...(tunnel ? { url } : {}) }, null, 2)}\n`;
  } catch (error) {
    throw errors.RunFile({ path: "the master's connection file", reason: messageOf(error) }, error);
  }
}

function isThere(path: string, text: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined && readFileSync(path, "utf8") === text;
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
}

function after(clock: Clock, ms: number): Promise<null> {
  return new Promise((resolve) => {
    clock.after(ms, () => resolve(null));
  });
}
