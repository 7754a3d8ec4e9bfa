/**
 * The keeper of a simulated node: the promises of the real one ({@link KeeperPort}) over simulated processes. Children hold on to their
 * node by their standard input: when the node is gone they have a second to leave, but for those that stand still.
 */
import { type KeeperGiven, type KeeperPort, LastEnd, type StartOrder } from "@muster/actors/internal";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";

/** The process of a replica on a host. */
export interface Child {
  readonly id: string;
  /** Node that started it. */
  readonly node: string;
  readonly process: SimProcess;
  /** Devices that it was given. */
  readonly devices: readonly string[];
  /** Exit code once it has come to its own end; `null` as long as it has not, and when it was killed. */
  code: number | null;
  /** Asks it to leave, as SIGTERM does. */
  stop(reason: string): void;
}

/** A deliberate bug of keepers. */
export interface KeeperBug {
  /** What an earlier life of the node left is not ended. */
  readonly forgetsLeftovers?: boolean;
  /** Children do not notice that their node is gone. */
  readonly keepsOrphans?: boolean;
}

/** What a simulated keeper is made of. */
export interface SimKeeperOptions {
  /** The node's own process. */
  readonly process: SimProcess;
  /** The last process of each replica on this host, whichever node started it. */
  readonly notes: Map<string, Child>;
  readonly failpoints: Failpoints;
  readonly bug: KeeperBug;
  /** Starts the process of a replica on this host. */
  readonly spawn: (order: StartOrder) => Child;
}

interface LiveChild {
  readonly child: Child;
  readonly life: number;
}

const orphanGraceMs = 1_000;

/** Starts and ends the processes of one simulated node. */
export class SimKeeper implements KeeperPort {
  readonly #given: KeeperGiven;
  readonly #options: SimKeeperOptions;
  readonly #held = new Map<string, LiveChild>();
  /** Lives that are about to start, and may be told to end before they do. */
  readonly #due = new Map<string, number>();
  #isClosed = false;
  readonly #lastEnd = new LastEnd();

  constructor(given: KeeperGiven, options: SimKeeperOptions) {
    this.#given = given;
    this.#options = options;
    options.process.onDeath(() => this.#orphan());
  }

  async clean(): Promise<readonly { readonly id: string; readonly pid: number }[]> {
    const { failpoints, process, notes, bug } = this.#options;
    await failpoints.pass(process, "node.keeper-clean");
    const own = [...notes.values()].filter(({ id, node }) => node === this.#given.node && !this.#held.has(id));
    for (const child of own) {
      if (!bug.forgetsLeftovers) child.process.kill();
      notes.delete(child.id);
    }
    return own.map(({ id, process: { pid } }) => ({ id, pid }));
  }

  async start(order: StartOrder): Promise<void> {
    const { id, life } = order;
    const { failpoints, process, notes, spawn } = this.#options;
    this.#due.set(id, life);
    await failpoints.pass(process, "node.keeper-start");
    if (this.#due.get(id) !== life) return;
    this.#due.delete(id);
    // Killed in the turn in which it began to start: the dead start nobody.
    if (process.isDead) return;
    for (const earlier of notes.values()) {
      const isInTheWay = earlier.id === id || earlier.devices.some((device) => order.devices?.includes(device));
      if (isInTheWay && !this.#held.has(earlier.id)) earlier.process.kill();
    }
    if (this.#isClosed) return;
    const child = spawn(order);
    this.#held.set(id, { child, life });
    notes.set(id, child);
    child.process.onDeath(() => process.after(2, () => this.#exited(id, life)));
    const { pid } = child.process;
    // No two lives are met at one port.
    const port = order.rank?.rank === 0 ? { port: 1_024 + (pid % 64_000) } : {};
    this.#given.onStarted({ id, life, pid, ...port });
  }

  end(id: string, how: "term" | "kill"): void {
    const { failpoints, process } = this.#options;
    const child = this.#held.get(id)?.child;
    failpoints.hit(process, "node.keeper-end");
    const due = this.#due.get(id);
    if (this.#due.delete(id) && due !== undefined && !process.isDead)
      this.#given.onExit({ id, life: due, pid: 0, code: null, signal: null, oom: false });
    if (!child || process.isDead) return;
    if (how === "kill") child.process.kill();
    else child.process.enter(() => child.stop("its node lets it go"));
  }

  signal(id: string, pid: number, signal: string): string {
    const child = this.#held.get(id)?.child;
    if (child?.process.pid !== pid) return `${id} has no process ${pid} any more`;
    const { process } = child;
    if (signal === "SIGSTOP") process.freeze("paused");
    else if (signal === "SIGCONT") process.thaw();
    else if (signal === "SIGTERM") process.enter(() => child.stop("maintenance"));
    else process.kill();
    return `${signal} sent to process ${pid}`;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const id of this.#held.keys()) this.end(id, "term");
    await this.#lastEnd.wait(this.#given.clock, this.#held, () => this.killNow());
  }

  killNow(): void {
    this.#isClosed = true;
    for (const { child } of this.#held.values()) child.process.kill();
  }

  #exited(id: string, life: number): void {
    const held = this.#held.get(id);
    if (held?.life !== life) return;
    this.#held.delete(id);
    const { child } = held;
    const { notes } = this.#options;
    if (notes.get(id) === child) notes.delete(id);
    this.#lastEnd.oneEnded();
    const { code } = child;
    const { pid, signal } = child.process;
    this.#given.onExit({ id, life, pid, code, signal: code === null ? signal : null, oom: false });
  }

  /** The node is gone: its children read the end of their standard input when they can. */
  #orphan(): void {
    if (this.#options.bug.keepsOrphans) return;
    for (const { child } of this.#held.values())
      child.process.after(2, () => {
        child.stop("its node is gone");
        child.process.after(orphanGraceMs, () => child.process.kill());
      });
  }
}
