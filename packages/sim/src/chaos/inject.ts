/** Does the faults of a plan to the processes and connections of a job. */
import { existsSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { BrokerProxy } from "./broker-proxy.ts";
import type { FarHost } from "./far-host.ts";
import type { Injection } from "./measure.ts";
import { type JobProcess, processesOf } from "./processes.ts";
import type { ChaosFault } from "./schedule.ts";

/** What is needed to do harm. */
export interface InjectorOptions {
  readonly runs: string;
  readonly job: string;
  /** Folder of the data plane's sockets. */
  readonly socketDirectory: string;
  readonly proxy: BrokerProxy;
  /** The second host, where there is one. */
  readonly far: FarHost | null;
  /** Process of the controller that acts, where it is known. */
  readonly actingPid: () => number | null;
  readonly onDone: (injection: Injection) => void;
}

/** Does faults, and undoes those that last. */
export interface Injector {
  /** True when somebody whom the fault is meant for is there. */
  hasVictim(fault: ChaosFault): boolean;
  inject(fault: ChaosFault): void;
  /** Ends every fault that lasts. */
  release(): void;
}

/** Makes the injector of a job. */
export function createInjector(options: InjectorOptions): Injector {
  const lasting = new Map<() => void, NodeJS.Timeout>();
  const last = (fault: ChaosFault, undo: () => void): void => {
    const end = (): void => {
      clearTimeout(lasting.get(end));
      lasting.delete(end);
      undo();
    };
    lasting.set(end, setTimeout(end, fault.lastsMs));
  };
  return {
    hasVictim: (fault) => victimsOf(fault, options).length > 0,
    inject(fault) {
      const victims = victimsOf(fault, options);
      const [first] = victims;
      const injectedAtMs = Date.now();
      const undo = victims.map((victim) => strike(fault, victim, options));
      if (fault.lastsMs > 0 && first) last(fault, () => undoAll(undo));
      options.onDone({ ...fault, injectedAtMs, id: first?.id ?? null, pid: first?.pid ?? null });
    },
    release() {
      for (const end of [...lasting.keys()]) end();
    },
  };
}

function undoAll(undo: readonly (() => void)[]): void {
  for (const run of undo) run();
}

/** The processes that a fault is meant for, as they are called now. */
function victimsOf({ kind, target }: ChaosFault, options: InjectorOptions): readonly JobProcess[] {
  const { runs, job, actingPid, far } = options;
  const all = processesOf(runs, job);
  if (target.role === "host") return all.filter(({ id }) => id === far?.ids[0]);
  const present = all.filter(({ role }) => role === target.role);
  if (kind === "rack") return present;
  const acting = present.find(({ pid }) => pid === actingPid());
  const one = target.role === "controller" && acting ? acting : present[target.index % Math.max(1, present.length)];
  return one ? [one] : [];
}

/** Does it. @returns What ends it. */
function strike(fault: ChaosFault, { id, pid }: JobProcess, options: InjectorOptions): () => void {
  const { proxy, socketDirectory, far } = options;
  switch (fault.kind) {
    case "kill":
    case "rack":
    case "broker":
    case "node":
    case "controller":
      signal(pid, "SIGKILL");
      return () => {};
    case "freeze":
    case "stall":
      signal(pid, "SIGSTOP");
      return () => signal(pid, "SIGCONT");
    case "cut":
      return proxy.cut(id, "both");
    case "one-way":
      return proxy.cut(id, fault.direction ?? "up");
    case "reset":
      proxy.reset(id);
      return () => {};
    case "partition":
      return far?.cut(fault.way ?? "all", fault.target.index) ?? (() => {});
    case "data":
      return hideSocket(socketDirectory, fault.target.index);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    // It ended between the look and the blow.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Hides the socket of one member's data plane: who holds a connection keeps it, nobody gets a new one. */
function hideSocket(directory: string, index: number): () => void {
  const sockets = existsSync(directory)
    ? readdirSync(directory)
        .filter((name) => name.endsWith(".sock"))
        .sort()
    : [];
  const socket = sockets[index % Math.max(1, sockets.length)];
  if (socket === undefined) return () => {};
  const path = join(directory, socket);
  const hidden = `${path}.hidden`;
  if (!move(path, hidden)) return () => {};
  return () => {
    // A new life may have made a new socket; nobody listens on the old one then.
    if (existsSync(path)) rmSync(hidden, { force: true });
    else move(hidden, path);
  };
}

function move(from: string, to: string): boolean {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
