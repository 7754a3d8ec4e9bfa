/**
 * The gradient reduction: memory for the micro-shards of one step, shared within a host and kept in step between hosts, summed
 * along a tree of their indices, whoever computed them.
 */
import { checkTimeout, checkWhole } from "./check.ts";
import { errorOf, errors } from "./errors.ts";
import { epochText, type MembershipOptions, membershipOf } from "./membership.ts";
import { cancellable, type NativeMesh, native } from "./native.ts";

/** As the data plane; a view has at most `viewElementsMax`. */
const shardElementsMax = 2 ** 40;

/** Views over 4 GiB crash Node 20. */
const viewElementsMax = 2 ** 30 - 1;

/** Who forms a mesh, where, and of which size. All members must give the same values but for `rank`. */
export interface GradientMeshOptions extends MembershipOptions {
  /** Number of micro-shards, 1 … 4096: a constant of the job, not of the world size. */
  readonly shards: number;
  /** Floats per shard, 1 … 2^40. From 2^30 on, shards and sums are seen through windows. */
  readonly shardElements: number;
}

/** One reduction. */
export interface ReduceOptions {
  /** Number of the operation; must be the same on all ranks. */
  readonly op: number;
  /** Indices of the shards that this rank has filled for this operation. */
  readonly written: readonly number[];
  /** Longest time in milliseconds until all members have come, summed and gone. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** What is wanted of the sum; all of it when this is left out. */
  readonly window?: ShardWindow;
}

/** Some elements of a shard or of a sum, at most 2^30 − 1. */
export interface ShardWindow {
  readonly from: number;
  readonly elements: number;
}

/** One member's place in a mesh. After a failed operation the mesh is spent: close it and form the next epoch. */
export interface GradientMesh {
  readonly epoch: number;
  readonly rank: number;
  readonly worldSize: number;
  /**
   * The shared memory of one micro-shard, or of a window of it: float32, the same view at each call. The rank that computes the shard
   * writes it, between two reduces. Reduces leave it as it is. Detached (length 0) by `close()`.
   *
   * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a window that is not in the shard, or is too large.
   */
  shard(index: number, window?: ShardWindow): Float32Array;
  /**
   * Adds all shards along the binary tree of their indices, `((s0 + s1) + (s2 + s3)) + …`, in float32: the bits depend neither on the number of ranks nor
   * on who wrote what (see `TreeFold`). Of neighbours that a rank of another host wrote, only their sum crosses the network.
   *
   * @returns A view of the shared sum, valid until this rank's next reduce and detached by `close()`. Do not write to it.
   * @throws MUSTER_ERR_COLLECTIVE_PEER_LOST with the ranks that died or left.
   * @throws MUSTER_ERR_COLLECTIVE_TIMEOUT naming the ranks that did not arrive.
   * @throws MUSTER_ERR_COLLECTIVE_ABORTED by `signal`, `abort` or `close`.
   * @throws MUSTER_ERR_COLLECTIVE_DISAGREEMENT on all ranks, when ops differ or a shard was not written exactly once.
   * @throws MUSTER_ERR_COLLECTIVE_SPENT after an earlier failure.
   */
  reduce(options: ReduceOptions): Promise<Float32Array>;
  /** More of the sum of this rank's last reduce; as long valid. @throws MUSTER_ERR_NATIVE_OPTION_INVALID as {@link GradientMesh.shard} */
  result(window?: ShardWindow): Float32Array;
  /** Ends a reduce in progress and leaves; the others see this rank as lost. Works while a reduce is blocked. */
  abort(reason: string): void;
  /** Leaves and detaches all views at once. Connections and memory are given back beside, and the process stays until then. Harmless twice. */
  close(): void;
}

/**
 * Forms a mesh with the other members of an epoch; resolves when all are there. On each host the first rank keeps its host's memory in step
 * with the others' over TCP; when it dies or falls silent for a second, its host is lost to the others, and they to its neighbours.
 *
 * @throws MUSTER_ERR_COLLECTIVE_TIMEOUT naming the ranks that did not come.
 * @throws MUSTER_ERR_COLLECTIVE_REFUSED when another member has another key or another view of the epoch.
 * @throws MUSTER_ERR_COLLECTIVE_PEER_LOST, MUSTER_ERR_COLLECTIVE_ABORTED, MUSTER_ERR_NATIVE_OPTION_INVALID
 */
export async function openGradientMesh(options: GradientMeshOptions): Promise<GradientMesh> {
  const { members, shards, shardElements, signal } = options;
  const membership = membershipOf(options);
  checkWhole("shards", shards, { min: 1, max: 4096 });
  checkWhole("shardElements", shardElements, { min: 1, max: shardElementsMax });
  const opened = await cancellable(signal, (cancellation) =>
    native().openMesh({ ...membership, shards, shardElements, cancellation }),
  );
  if (!opened.ok) {
    const epoch = epochText(options);
    // The core, here or in another member, knows each part as an epoch of its own.
    const message = opened.message.replaceAll(`epoch ${membership.epoch} `, `epoch ${epoch} `);
    throw errorOf("mesh", { ...opened, message }, { epoch, timeoutMs: membership.timeoutMs }, members);
  }
  return new OpenGradientMesh(opened.value, options);
}

class OpenGradientMesh implements GradientMesh {
  readonly epoch: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly #mesh: NativeMesh;
  /** What errors call it. */
  readonly #name: string;
  readonly #members: readonly string[];
  readonly #shards: number;
  readonly #shardElements: number;
  readonly #views = new Map<string, Float32Array>();
  #closed = false;

  constructor(mesh: NativeMesh, options: GradientMeshOptions) {
    this.#mesh = mesh;
    this.#name = epochText(options);
    this.#members = options.members;
    this.#shards = options.shards;
    this.#shardElements = options.shardElements;
    this.epoch = options.epoch;
    this.rank = options.rank;
    this.worldSize = options.members.length;
  }

  shard(index: number, window?: ShardWindow): Float32Array {
    checkWhole("shard", index, { min: 0, max: this.#shards - 1 });
    return this.#view(index, window, (from, elements) => this.#mesh.shard(index, from, elements));
  }

  async reduce(options: ReduceOptions): Promise<Float32Array> {
    this.#checkOpen();
    checkWhole("op", options.op, { min: 0, max: Number.MAX_SAFE_INTEGER });
    for (const index of options.written) checkWhole("written", index, { min: 0, max: this.#shards - 1 });
    const timeoutMs = checkTimeout("deadlineMs", options.deadlineMs);
    const { op, written, window } = options;
    this.#check(window);
    const reduced = await cancellable(options.signal, (cancellation) =>
      this.#mesh.reduce({ op, written, timeoutMs, cancellation }),
    );
    if (!reduced.ok) throw errorOf("mesh", reduced, { epoch: this.#name, timeoutMs }, this.#members);
    return this.result(window);
  }

  result(window?: ShardWindow): Float32Array {
    return this.#view("result", window, (from, elements) => this.#mesh.result(from, elements));
  }

  abort(reason: string): void {
    this.#mesh.abort(reason);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#mesh.close();
    this.#views.clear();
  }

  #view(
    of: number | "result",
    window: ShardWindow | undefined,
    make: (from: number, elements: number) => Float32Array,
  ): Float32Array {
    this.#checkOpen();
    const { from, elements } = this.#check(window);
    const key = `${of} ${from} ${elements}`;
    const view = this.#views.get(key) ?? make(from, elements);
    this.#views.set(key, view);
    return view;
  }

  #check({ from, elements }: ShardWindow = { from: 0, elements: this.#shardElements }): ShardWindow {
    checkWhole("window.from", from, { min: 0, max: this.#shardElements - 1 });
    checkWhole("window.elements", elements, { min: 1, max: Math.min(viewElementsMax, this.#shardElements - from) });
    return { from, elements };
  }

  #checkOpen(): void {
    if (this.#closed) throw errors.CollectiveSpent({ epoch: this.#name, reason: "it was closed" });
  }
}
