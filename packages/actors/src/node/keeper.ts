/** The processes of a node: each in a group of its own, alive only as long as this process holds its standard input open. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";
import { type Clock, type Logger, messageOf } from "@muster/base";
import { lifeWords, reservePort } from "@muster/engine";
import type { NodeEffect } from "@muster/machines";
import type { RankOrder, ReplicaRole } from "@muster/protocol";
import { ErrorFiles, lastWordsOf, makeFolderSync } from "@muster/runtime";
import { environmentOf } from "./devices.ts";
import { LastEnd } from "./last-end.ts";
import {
  drawMark,
  endEscaped,
  endLeftover,
  markVariable,
  type ProcessNote,
  ProcessNotes,
  signalGroup,
} from "./leftovers.ts";
import { isHeapFull, oomKillsOf } from "./out-of-memory.ts";
import { membersOf } from "./proc.ts";
import { rankEnvironmentOf } from "./rank-environment.ts";

/** How a process ended. */
export interface KeeperExit {
  readonly id: string;
  readonly life: number;
  readonly pid: number;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The kernel ended it because memory was short, or its heap was full. */
  readonly oom: boolean;
  /** What it said last, when it ended badly and by itself. */
  readonly words?: string;
}

/** A process that runs. */
export interface Started {
  readonly id: string;
  readonly life: number;
  readonly pid: number;
  /** The port that was reserved for the ranks of its replica; only of rank 0 of several. */
  readonly port?: number;
}

/** What a node gives to its keeper. */
export interface KeeperGiven {
  /** Id of the node. */
  readonly node: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onStarted: (started: Started) => void;
  readonly onExit: (exit: KeeperExit) => void;
}

/** What a keeper is made from. */
export interface KeeperOptions extends KeeperGiven {
  /** Folder of the job's run: logs go into its `logs`, notes of processes into its `pids`. */
  readonly directory: string;
  /** Program and arguments that run a process of a replica. */
  readonly commandOf: (role: ReplicaRole, id: string, rank: number) => readonly string[];
  /** Environment of a replica; the mark of its life is added. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Which process to start. */
export type StartOrder = Omit<Extract<NodeEffect, { type: "keeper.start" }>, "type">;

/** Starts and ends the processes of one node: the host's, or those of a simulation. */
export interface KeeperPort {
  /** Ends what an earlier life of this node left. @returns The processes that are gone now. */
  clean(): Promise<readonly { readonly id: string; readonly pid: number }[]>;
  /** Starts a replica. Another process of it on this host, and whoever still has one of its devices there, is ended first, whoever started it. */
  start(order: StartOrder): Promise<void>;
  /** Asks a replica to leave, or ends its whole group. Harmless when it is gone. */
  end(id: string, how: "term" | "kill"): void;
  /** Sends a signal. @returns What became of it, in words. */
  signal(id: string, pid: number, signal: string): string;
  /** Ends everything: SIGTERM, and after two seconds the whole groups. */
  close(): Promise<void>;
  /** Ends everything at once and without waiting: the last thing that a process does. */
  killNow(): void;
}

/** The end of what had no process. */
const neverBegan = { pid: 0, code: null, signal: null, oom: false } as const;

interface LiveChild {
  readonly child: ChildProcess;
  readonly life: number;
  /** Where its own words begin in the log of its replica. */
  readonly log: { readonly path: string; from: number };
  isAsked: boolean;
  isKilled: boolean;
}

/** Time that the children of a process that has ended may take to end, too. */
const groupEndMs = 5_000;
const groupPollMs = 50;

/** Starts and ends the processes of one node. */
export class Keeper implements KeeperPort {
  readonly #options: KeeperOptions;
  readonly #notes: ProcessNotes;
  readonly #held = new Map<string, LiveChild>();
  /** Lives that wait for their turn to start. */
  readonly #due = new Map<string, number>();
  #turns: Promise<void> = Promise.resolve();
  #oomKills = oomKillsOf();
  #isClosed = false;
  readonly #lastEnd = new LastEnd();
  readonly #errorFiles: ErrorFiles;

  constructor(options: KeeperOptions) {
    this.#options = options;
    makeFolderSync(join(options.directory, "logs"));
    this.#notes = new ProcessNotes(options.directory);
    this.#errorFiles = new ErrorFiles(options);
  }

  async clean(): Promise<readonly { readonly id: string; readonly pid: number }[]> {
    const own = this.#notes.by(this.#options.node).filter(({ id }) => !this.#held.has(id));
    for (const note of own) {
      await endLeftover(note, this.#options);
      this.#notes.erase(note.id, note.pid);
    }
    return own.map(({ id, pid }) => ({ id, pid }));
  }

  /** One process at a time, and the loop turns between two: on a busy host a start blocks it for long, and a node owes answers and heartbeats. */
  start(order: StartOrder): Promise<void> {
    this.#due.set(order.id, order.life);
    const started = this.#turns.then(() => turnOfTheLoop()).then(() => this.#startDue(order));
    // Whoever asked hears of a failure; the next start is not held up by it.
    this.#turns = started.catch(() => {});
    return started;
  }

  async #startDue(order: StartOrder): Promise<void> {
    const { id, life, devices } = order;
    const isDue = (): boolean => !this.#isClosed && this.#due.get(id) === life;
    if (isDue())
      for (const earlier of this.#notes.inTheWayOf(id, devices ?? []))
        if (!this.#held.has(earlier.id)) await endLeftover(earlier, this.#options);
    const rank = order.rank && isDue() ? await this.#withPort(order.rank) : order.rank;
    // It may have been told to end before it began.
    if (!isDue()) return;
    this.#due.delete(id);
    if (typeof rank === "string") this.#options.onExit({ ...neverBegan, id, life, words: rank });
    else this.#spawn(rank ? { ...order, rank } : order);
  }

  /** Rank 0 is met at a port of its host: it is drawn when it begins, anew for each life. @returns Why there is none, in words: it costs that life only. */
  async #withPort(rank: RankOrder): Promise<RankOrder | string> {
    if (rank.rank !== 0) return rank;
    const { address } = rank.master;
    try {
      return { ...rank, master: { address, port: await reservePort(address) } };
    } catch (error) {
      this.#options.logger.error(
        { id: rank.id, address, error },
        "no port could be reserved for the ranks of a replica",
      );
      return `no port of ${address} could be reserved for its other ranks to meet it: ${messageOf(error)}`;
    }
  }

  #spawn({ id, role, life, devices, rank }: StartOrder): void {
    const { directory, node, commandOf, logger, onStarted } = this.#options;
    const path = join(directory, "logs", `${id}.err`);
    const log = openSync(path, "a", 0o600);
    const from = fstatSync(log).size;
    const mark = drawMark();
    const [program = "", ...args] = lifeWords(mark, commandOf(role, rank?.id ?? id, rank?.rank ?? 0));
    const own = { ...(rank ? rankEnvironmentOf(rank) : {}), [markVariable]: mark };
    const env = { ...environmentOf(this.#options.env, devices), ...own };
    const child = spawn(program, args, { stdio: ["pipe", "ignore", log], detached: true, env });
    closeSync(log);
    const words = { path, from };
    this.#held.set(id, { child, life, log: words, isAsked: false, isKilled: false });
    this.#errorFiles.add(path, (leftBytes) => {
      words.from = leftBytes;
    });
    // A child that is gone closes the pipe; its exit says all there is to say.
    child.stdin?.on("error", () => {});
    child.once("error", (error) => {
      logger.error({ id, error }, "process could not be started");
      if (child.pid === undefined) this.#exited(id, life, { code: null, signal: null });
    });
    child.once("exit", (code, signal) =>
      this.#whenGone({ pid: child.pid ?? 0, mark }, () => this.#exited(id, life, { code, signal })),
    );
    if (child.pid === undefined) return;
    this.#notes.write({ id, node, pid: child.pid, mark, devices: devices ?? [] });
    onStarted({ id, life, pid: child.pid, ...(rank?.rank === 0 ? { port: rank.master.port } : {}) });
  }

  end(id: string, how: "term" | "kill"): void {
    const due = this.#due.get(id);
    if (this.#due.delete(id) && due !== undefined) this.#options.onExit({ ...neverBegan, id, life: due });
    const held = this.#held.get(id);
    if (held?.child.pid === undefined) return;
    if (how === "kill") {
      held.isKilled = true;
      signalGroup(held.child.pid, "SIGKILL");
    } else if (!held.isAsked) {
      held.isAsked = true;
      held.child.kill("SIGTERM");
    }
  }

  signal(id: string, pid: number, signal: string): string {
    const held = this.#held.get(id);
    if (held?.child.pid !== pid) return `${id} has no process ${pid} any more`;
    return held.child.kill(signal as NodeJS.Signals) ? `${signal} sent to process ${pid}` : `process ${pid} is gone`;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#due.clear();
    for (const id of this.#held.keys()) this.end(id, "term");
    await this.#lastEnd.wait(this.#options.clock, this.#held, () => this.killNow());
  }

  killNow(): void {
    this.#isClosed = true;
    this.#due.clear();
    for (const id of this.#held.keys()) this.end(id, "kill");
  }

  /** Children of a replica go with it; what they held, the memory of a GPU for one, is free when they have gone. */
  #whenGone({ pid, mark }: Pick<ProcessNote, "pid" | "mark">, then: () => void): void {
    if (pid > 0) signalGroup(pid, "SIGKILL");
    const { clock, logger } = this.#options;
    const lateMs = clock.now() + groupEndMs;
    const look = (): void => {
      const left = pid > 0 ? [...membersOf(pid), ...endEscaped(pid, mark)] : [];
      if (left.length > 0 && clock.now() < lateMs) return void clock.after(groupPollMs, look);
      if (left.length > 0)
        logger.warn({ group: pid, members: left }, "processes of a replica that has ended do not end");
      then();
    };
    look();
  }

  #exited(id: string, life: number, exit: Pick<KeeperExit, "code" | "signal">): void {
    const held = this.#held.get(id);
    if (held?.life !== life) return;
    this.#held.delete(id);
    const pid = held.child.pid ?? 0;
    this.#notes.erase(id, pid);
    const oomKills = oomKillsOf();
    const isKilled = exit.signal === "SIGKILL" || exit.code === 137;
    const isShort = isKilled ? oomKills > this.#oomKills : isHeapFull(exit, held.log);
    const words = held.isAsked || held.isKilled ? {} : lastWordsOf(exit, held.log);
    this.#errorFiles.remove(held.log.path);
    const oom = !held.isKilled && isShort;
    this.#oomKills = oomKills;
    this.#lastEnd.oneEnded();
    this.#options.onExit({ id, life, pid, ...exit, oom, ...words });
  }
}
