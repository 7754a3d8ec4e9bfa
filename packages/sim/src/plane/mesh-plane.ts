/**
 * Gradient meshes: a rendezvous of ranks in virtual time and an ordered sum over indexed shards. A rank that dies is missed after a
 * moment, one that stands still at the deadline; whoever misses somebody breaks the mesh for all.
 */
import { TreeFold } from "@muster/base";
import type { GradientMesh, ShardWindow } from "@muster/collectives";
import { ranksMax } from "@muster/protocol/internal";
import { errors } from "../errors.ts";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";
import type { PlaneFaults } from "./version-plane.ts";

/** What a rank asks for, as production code does. */
export interface MeshOptions {
  readonly epoch: number;
  /** Of trainers of several processes: which of these meet here. */
  readonly part?: number | undefined;
  readonly rank: number;
  readonly members: readonly string[];
  readonly shards: number;
  readonly shardElements: number;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** Who watches the meshes. */
export interface MeshObserver {
  joined(process: SimProcess, options: Pick<MeshOptions, "epoch" | "rank" | "members">): void;
  reducing(process: SimProcess, at: { readonly epoch: number; readonly op: number }): void;
}

/** What canary bugs do to meshes. */
export interface MeshBug {
  readonly sumsByArrival?: boolean;
}

/** How long the loss of a peer's process takes to show on its sockets. */
const noticeMs = 30;
const joinMs = 20;
const sumMs = 15;

interface Wait {
  readonly rank: number;
  readonly process: SimProcess;
  readonly settle: (outcome: Float32Array | Error) => void;
}

/** What all ranks of one epoch share. */
class Rendezvous {
  readonly members = new Map<number, SimProcess>();
  readonly shards: Float32Array[];
  readonly joins: Wait[] = [];
  /** Indices of shards in the order in which they were written. */
  readonly arrived: number[] = [];
  readonly ops = new Map<number, Wait[]>();
  isBroken = false;

  constructor(shards: number, shardElements: number) {
    this.shards = Array.from({ length: shards }, () => new Float32Array(shardElements));
  }
}

/** The meshes of a simulation. */
export class MeshPlane {
  readonly #meshes = new Map<string, Rendezvous>();
  readonly #sizes = new Map<SimProcess, number>();
  readonly #failpoints: Failpoints;
  readonly #faults: PlaneFaults;
  readonly #observer: MeshObserver;
  readonly #bug: MeshBug;

  constructor(
    failpoints: Failpoints,
    given: { readonly faults: PlaneFaults; readonly observer: MeshObserver; readonly bug?: MeshBug | undefined },
  ) {
    const { faults, observer, bug = {} } = given;
    this.#bug = bug;
    this.#failpoints = failpoints;
    this.#faults = faults;
    this.#observer = observer;
  }

  /** Joins the mesh of an epoch; resolves when all of its members have. */
  async open(process: SimProcess, options: MeshOptions): Promise<GradientMesh> {
    const { epoch, rank, members } = options;
    await this.#failpoints.pass(process, "policy.mesh-open");
    options.signal.throwIfAborted();
    const key = `${epoch}/${members.join()}`;
    const mesh = this.#meshes.get(key) ?? new Rendezvous(options.shards, options.shardElements);
    this.#meshes.set(key, mesh);
    this.#observer.joined(process, { epoch: toldOf(options), rank, members });
    mesh.members.set(rank, process);
    process.onDeath(() => this.#lose(mesh, epoch, rank));
    await this.#wait(
      { mesh, process, options, waits: mesh.joins, delayMs: joinMs, deadlineMs: options.deadlineMs },
      () => new Float32Array(),
    );
    await this.#failpoints.pass(process, "policy.mesh-joined");
    return this.#handle(mesh, process, options);
  }

  /** Ranks of the mesh that a process joined last. */
  sizeOf(process: SimProcess): number {
    return this.#sizes.get(process) ?? 0;
  }

  #handle(mesh: Rendezvous, process: SimProcess, options: MeshOptions): GradientMesh {
    const { epoch, rank, members } = options;
    this.#sizes.set(process, members.length);
    // Each rank computes a few of the shards: of a mesh of hundreds the others would be most of what it holds.
    const own: Float32Array[] = [];
    const shard = (index: number): Float32Array => {
      own[index] ??= new Float32Array(options.shardElements);
      return own[index];
    };
    let sum: Float32Array = new Float32Array(0);
    const seen = (whole: Float32Array, window?: ShardWindow): Float32Array =>
      window ? whole.subarray(window.from, window.from + window.elements) : whole;
    return {
      epoch,
      rank,
      worldSize: members.length,
      shard: (index, window) => seen(shard(index), window),
      result: (window) => seen(sum, window),
      reduce: async ({ op, written, window, deadlineMs, signal }) => {
        await this.#failpoints.pass(process, "policy.reduce-begin");
        this.#observer.reducing(process, { epoch: toldOf(options), op });
        for (const index of written) {
          mesh.shards[index]?.set(shard(index));
          mesh.arrived.push(index);
        }
        const waits = mesh.ops.get(op) ?? [];
        mesh.ops.set(op, waits);
        const given = { mesh, process, options: { ...options, signal }, waits, delayMs: sumMs, deadlineMs };
        sum = await this.#wait(given, () => this.#sum(mesh));
        await this.#failpoints.pass(process, "policy.reduce-end");
        return seen(sum, window);
      },
      abort: (reason) => this.#break(mesh, epoch, [rank], reason),
      close: () => this.#break(mesh, epoch, [rank], "closed"),
    };
  }

  #sum({ shards, arrived }: Rendezvous): Float32Array {
    const order = arrived.splice(0);
    return treeSum(this.#bug.sumsByArrival ? order.flatMap((index) => shards[index] ?? []) : shards);
  }

  /** Waits with all other ranks; the last one to come makes the result for all. */
  #wait(
    given: {
      readonly mesh: Rendezvous;
      readonly process: SimProcess;
      readonly options: MeshOptions;
      readonly waits: Wait[];
      readonly delayMs: number;
      readonly deadlineMs: number;
    },
    finish: () => Float32Array,
  ): Promise<Float32Array> {
    const { mesh, process, options, waits, delayMs, deadlineMs } = given;
    const { epoch, rank, members, signal } = options;
    return new Promise((resolve, reject) => {
      if (mesh.isBroken) {
        reject(lost(epoch, [], "the mesh is broken"));
        return;
      }
      const settle = (outcome: Float32Array | Error): void => {
        cancel();
        signal.removeEventListener("abort", stop);
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      };
      const stop = (): void => this.#break(mesh, epoch, [rank], String(signal.reason));
      const cancel = process.after(deadlineMs, () => {
        const missing = members.flatMap((_, other) => (waits.some((wait) => wait.rank === other) ? [] : [other]));
        this.#break(mesh, epoch, missing, "the deadline passed");
      });
      signal.addEventListener("abort", stop, { once: true });
      waits.push({ rank, process, settle });
      const cut = waits.find((other) => this.#faults.isCut(process, other.process));
      if (waits.length < members.length || cut) return;
      const result = finish();
      // A loss between the sum and its arrival: some ranks have the result, others only the news.
      const deliver = (wait: Wait): void => wait.settle(mesh.isBroken ? lost(epoch, [], "broken") : result.slice());
      for (const wait of waits.splice(0)) wait.process.after(delayMs + wait.rank, () => deliver(wait));
    });
  }

  #lose(mesh: Rendezvous, epoch: number, rank: number): void {
    for (const process of mesh.members.values()) {
      if (process.isDead) continue;
      process.after(noticeMs, () => this.#break(mesh, epoch, [rank], "its process is gone"));
      return;
    }
  }

  /** Nobody can use this mesh any more; whoever waits is told. */
  #break(mesh: Rendezvous, epoch: number, ranks: readonly number[], reason: string): void {
    if (mesh.isBroken) return;
    mesh.isBroken = true;
    mesh.shards.length = 0;
    const waiting = [...mesh.joins.splice(0), ...[...mesh.ops.values()].flatMap((waits) => waits.splice(0))];
    for (const wait of waiting) wait.process.after(1, () => wait.settle(lost(epoch, ranks, reason)));
  }
}

/** The epoch as watchers know it: those of different parts are different ones. */
function toldOf({ epoch, part }: MeshOptions): number {
  return part === undefined ? epoch : epoch * ranksMax + part;
}

function lost(epoch: number, ranks: readonly number[], reason: string): Error {
  return errors.SimMeshLost({ epoch, ranks: ranks.join(","), reason });
}

/** The sum over shards along the tree of their indices: it does not depend on who wrote them. */
function treeSum(shards: readonly Float32Array[]): Float32Array {
  const fold = new TreeFold((sum: Float32Array, shard: Float32Array) => {
    for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (shard[i] as number);
    return sum;
  });
  for (const shard of shards) fold.push(shard.slice());
  return fold.sum() ?? new Float32Array(0);
}
