/** Collective operations between the members of a group: shared memory inside a host, a ring between hosts. */
import { checkName, checkTimeout, checkWhole } from "./check.ts";
import { errorOf, errors } from "./errors.ts";
import { type MembershipOptions, membershipOf } from "./membership.ts";
import { cancellable, glooPath, type NativeGroup, type NativeOperation, native } from "./native.ts";
import { viewBytesMax, Windows } from "./windows.ts";

/** As the data plane: operations count their elements in 40 bits, and places of messages are 40 bits of bytes. */
const capacityBytesMax = 2 ** 40 - 4;

/** Element types: float32, bfloat16, and bytes, which can be copied but not added up. */
export type DType = "f32" | "bf16" | "u8";

/** Bytes of one element. */
export const elementBytes: Readonly<Record<DType, number>> = { f32: 4, bf16: 2, u8: 1 };

/** What can carry the bytes of a group. */
export type GroupTransport = "muster" | "gloo";

/** Who forms a group, where, and of which size. All members must give the same values but for `rank`. */
export interface CollectiveGroupOptions extends MembershipOptions {
  /** Name of the group; groups of one job and epoch are told apart by it. */
  readonly name: string;
  /** Most bytes that an input or a result holds, 1 … 1 TiB − 4. From 4 GiB on they are seen through windows of up to 2 GiB − 8. Memory is taken for one input per member and one result on each host. */
  readonly capacityBytes: number;
  /**
   * Who carries the bytes; `muster` unless given. `gloo` is there for comparison where Gloo was installed when Muster was built: it copies
   * over TCP, adds up in an order that depends on the number of ranks, and does not prove who connects (docs/internals/data-plane.md).
   */
  readonly transport?: GroupTransport;
}

/** One operation. `dtype` and `count` must be the same on all ranks. */
export interface CollectiveOptions {
  readonly dtype: DType;
  /** Elements of each rank's input. */
  readonly count: number;
  /** Longest time in milliseconds until it is over on this rank. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** Memory of this rank's own that the result is copied to as well, off the JavaScript thread; of exactly its size. */
  readonly into?: Uint8Array;
  /** What is wanted of the result, in elements of it; all of it when this is left out. Read more of it by `resultAt`. */
  readonly window?: ResultWindow;
}

/** Some elements of a result. */
export interface ResultWindow {
  readonly from: number;
  readonly elements: number;
}

/** An operation that adds up. */
export interface AllReduceOptions extends CollectiveOptions {
  /** `sum` unless given. */
  readonly reduction?: "sum" | "mean";
}

/** Memory of this rank's own that takes part in an all-reduce, wherever it lies. */
export interface TensorPart {
  /** Copied into the input before. */
  readonly from: Uint8Array;
  /** Gets the result; as long as `from`. May be `from` itself when no second try is wanted. */
  readonly into: Uint8Array;
  /** Where it begins in input and result. */
  readonly offsetBytes: number;
}

/** What a rank gets of a reduce-scatter. */
export interface ReducedSlice {
  /** First element, counted in the whole; of the window, where one was asked for. */
  readonly begin: number;
  /** Behind the last one. */
  readonly end: number;
  readonly bytes: Uint8Array;
}

/**
 * One member's place in a group. It fills `input` and calls the same operation as all others; no operation changes an input, so a step
 * whose group broke can be tried again with the next one. Results are views, valid until this rank's next operation; do not write to them.
 *
 * All operations throw the same. After one of these errors, but the last, the group is spent: close it and form the next epoch.
 * MUSTER_ERR_COLLECTIVE_PEER_LOST with the ranks that died or left, MUSTER_ERR_COLLECTIVE_TIMEOUT naming the ranks that did not come,
 * MUSTER_ERR_COLLECTIVE_ABORTED by `signal`, `abort` or `close`, MUSTER_ERR_COLLECTIVE_DISAGREEMENT when ranks do different things,
 * MUSTER_ERR_COLLECTIVE_SPENT after an earlier failure, MUSTER_ERR_NATIVE_OPTION_INVALID or MUSTER_ERR_NATIVE_OPTION_REFUSED for what
 * this rank alone can see to be wrong; that changes nothing.
 */
export interface CollectiveGroup {
  readonly epoch: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly capacityBytes: number;
  /** This rank's memory: all of it, or as much as one view may have, from its beginning. Detached (length 0) by `close()`. */
  readonly input: Uint8Array;
  /** A window of this rank's memory, in bytes; for memory that is larger than one view. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
  inputAt(from: number, bytes: number): Uint8Array;
  /** A window of the last result, in bytes from its beginning. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
  resultAt(from: number, bytes: number): Uint8Array;
  /** The sum or mean of all inputs, added up in float32, with the same bits on all ranks. */
  allReduce(options: AllReduceOptions): Promise<Uint8Array>;
  /** The same from and to memory of this rank's own, copied off the JavaScript thread. Leave `parts` and their memory alone until then. */
  allReduceParts(options: AllReduceOptions & { readonly parts: readonly TensorPart[] }): Promise<void>;
  /** The part of the sum or mean that falls to this rank. */
  reduceScatter(options: AllReduceOptions): Promise<ReducedSlice>;
  /** All inputs in rank order. */
  allGather(options: CollectiveOptions): Promise<Uint8Array>;
  /** The input of rank `root`. */
  broadcast(options: CollectiveOptions & { readonly root: number }): Promise<Uint8Array>;
  /** Gives this rank's input to rank `to`; resolves when it has received it. */
  send(options: Omit<CollectiveOptions, "into"> & { readonly to: number }): Promise<void>;
  /** Takes what rank `from` sends, into memory of exactly that size. */
  receive(options: CollectiveOptions & { readonly from: number; readonly into: Uint8Array }): Promise<void>;
  /** Resolves when all ranks have called it. */
  barrier(options: Pick<CollectiveOptions, "deadlineMs" | "signal">): Promise<void>;
  /** Ends an operation in progress and leaves; the others see this rank as lost. */
  abort(reason: string): void;
  /** Leaves and detaches all views at once. Connections and memory are given back beside, and the process stays until then. Harmless twice. */
  close(): void;
}

/**
 * Forms a group with the other members of an epoch; resolves when all are there.
 *
 * @throws MUSTER_ERR_COLLECTIVE_TIMEOUT naming the ranks that did not come.
 * @throws MUSTER_ERR_COLLECTIVE_REFUSED when another member has another key or another view of the epoch.
 * @throws MUSTER_ERR_GLOO_MISSING when `gloo` is asked for and cannot be used; see `glooCapabilities`.
 * @throws MUSTER_ERR_COLLECTIVE_PEER_LOST, MUSTER_ERR_COLLECTIVE_ABORTED, MUSTER_ERR_NATIVE_OPTION_INVALID
 */
export async function openGroup(options: CollectiveGroupOptions): Promise<CollectiveGroup> {
  return await openGroupInViews(options, viewBytesMax);
}

/** As {@link openGroup}, with views of at most so many bytes: what is larger is seen through windows. */
export async function openGroupInViews(options: CollectiveGroupOptions, viewBytes: number): Promise<CollectiveGroup> {
  const { epoch, name, capacityBytes, signal } = options;
  const membership = membershipOf(options);
  checkName("name", name);
  checkWhole("capacityBytes", capacityBytes, { min: 1, max: capacityBytesMax });
  const gloo = options.transport === "gloo" ? glooPath() : null;
  const opened = await cancellable(signal, (cancellation) =>
    native().openGroup({ ...membership, name, capacityBytes, gloo, cancellation }),
  );
  if (!opened.ok) throw errorOf("mesh", opened, { epoch, timeoutMs: membership.timeoutMs });
  return new OpenGroup(opened.value, options, viewBytes);
}

/**
 * The elements that fall to `rank` in a reduce-scatter: whole lines of 16, together covering everything once. The same as `sliceOf` in
 * native/src/cpu/ordered_sum.cc.
 */
function sliceOf(count: number, rank: number, worldSize: number): Range {
  const lines = Math.ceil(count / 16);
  const edge = (at: number): number => Math.min(count, Math.floor((lines * at) / worldSize) * 16);
  return { begin: edge(rank), end: edge(rank + 1) };
}

interface Range {
  readonly begin: number;
  readonly end: number;
}

type Body = Pick<NativeOperation, "kind"> & Partial<NativeOperation>;

class OpenGroup implements CollectiveGroup {
  readonly epoch: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly capacityBytes: number;
  readonly input: Uint8Array;
  readonly #inputs: Windows;
  readonly #results: Windows;
  readonly #group: NativeGroup;
  #closed = false;

  constructor(group: NativeGroup, options: CollectiveGroupOptions, viewBytes: number) {
    this.#group = group;
    this.epoch = options.epoch;
    this.rank = options.rank;
    this.worldSize = options.members.length;
    this.capacityBytes = options.capacityBytes;
    this.#inputs = new Windows((from, bytes) => group.input(from, bytes), this.capacityBytes, viewBytes);
    this.#results = new Windows((from, bytes) => group.result(from, bytes), this.capacityBytes, viewBytes);
    this.input = this.#inputs.at(0, this.#inputs.windowBytesMax);
  }

  inputAt(from: number, bytes: number): Uint8Array {
    this.#checkOpen();
    return this.#inputs.at(from, bytes);
  }

  resultAt(from: number, bytes: number): Uint8Array {
    this.#checkOpen();
    return this.#results.at(from, bytes);
  }

  async allReduce(options: AllReduceOptions): Promise<Uint8Array> {
    const range = this.#rangeOf(options, { begin: 0, end: options.count });
    await this.#run({ kind: "allReduce", mean: options.reduction === "mean" }, options);
    return this.#view(range, options.dtype);
  }

  async allReduceParts(options: AllReduceOptions & { readonly parts: readonly TensorPart[] }): Promise<void> {
    const { dtype, count, reduction, parts } = options;
    const end = count * elementBytes[dtype];
    for (const [i, { from, into, offsetBytes }] of parts.entries()) {
      const { byteLength } = from;
      checkWhole(() => `parts[${i}].offsetBytes`, offsetBytes, { min: 0, max: end - byteLength });
      checkWhole(() => `parts[${i}].into.byteLength`, into.byteLength, { min: byteLength, max: byteLength });
    }
    const table = {
      from: parts.map(({ from }) => from),
      into: parts.map(({ into }) => into),
      offsets: Float64Array.from(parts, ({ offsetBytes }) => offsetBytes),
    };
    await this.#run({ kind: "allReduce", mean: reduction === "mean", parts: table }, options);
  }

  async reduceScatter(options: AllReduceOptions): Promise<ReducedSlice> {
    const range = this.#rangeOf(options, sliceOf(options.count, this.rank, this.worldSize));
    await this.#run({ kind: "reduceScatter", mean: options.reduction === "mean" }, options);
    return { ...range, bytes: this.#view(range, options.dtype) };
  }

  async allGather(options: CollectiveOptions): Promise<Uint8Array> {
    const range = this.#rangeOf(options, { begin: 0, end: options.count * this.worldSize });
    await this.#run({ kind: "allGather" }, options);
    return this.#view(range, options.dtype);
  }

  async broadcast(options: CollectiveOptions & { readonly root: number }): Promise<Uint8Array> {
    this.#checkRank("root", options.root);
    const range = this.#rangeOf(options, { begin: 0, end: options.count });
    await this.#run({ kind: "broadcast", peer: options.root }, options);
    return this.#view(range, options.dtype);
  }

  async send(options: Omit<CollectiveOptions, "into"> & { readonly to: number }): Promise<void> {
    this.#checkRank("to", options.to);
    await this.#run({ kind: "send", peer: options.to }, options);
  }

  async receive(options: CollectiveOptions & { readonly from: number; readonly into: Uint8Array }): Promise<void> {
    this.#checkRank("from", options.from);
    await this.#run({ kind: "receive", peer: options.from }, options);
  }

  async barrier(options: Pick<CollectiveOptions, "deadlineMs" | "signal">): Promise<void> {
    await this.#run({ kind: "barrier" }, { ...options, dtype: "u8", count: 0 });
  }

  abort(reason: string): void {
    this.#group.abort(reason);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#group.close();
  }

  async #run(body: Body, { dtype, count, deadlineMs, signal, into }: CollectiveOptions): Promise<void> {
    const { epoch } = this;
    this.#checkOpen();
    this.#checkCount(count, dtype);
    const timeoutMs = checkTimeout("deadlineMs", deadlineMs);
    const operation: NativeOperation = { mean: false, peer: 0, into: into ?? null, parts: null, dtype, count, ...body };
    const done = await cancellable(signal, (cancellation) =>
      this.#group.run({ ...operation, timeoutMs, cancellation }),
    );
    if (!done.ok) throw errorOf("mesh", done, { epoch, timeoutMs });
  }

  /** The elements that are wanted of those of a result; checked before anything runs. */
  #rangeOf({ dtype, count, window }: CollectiveOptions, whole: Range): Range {
    this.#checkOpen();
    this.#checkCount(count, dtype);
    const length = whole.end - whole.begin;
    const { from, elements } = window ?? { from: 0, elements: length };
    checkWhole("window.from", from, { min: 0, max: length });
    checkWhole("window.elements", elements, { min: 0, max: length - from });
    const max = Math.floor(this.#results.windowBytesMax / elementBytes[dtype]);
    // What does not fit at all is refused by the operation itself, with the reason.
    if (elements > max && whole.end * elementBytes[dtype] <= this.capacityBytes) {
      const fix = `give a window of up to ${max} elements, and read the rest of the result by resultAt`;
      throw errors.NativeOptionInvalid({ field: "window.elements", value: elements, fix });
    }
    return { begin: whole.begin + from, end: whole.begin + from + elements };
  }

  #view({ begin, end }: Range, dtype: DType): Uint8Array {
    this.#checkOpen();
    const size = elementBytes[dtype];
    return this.#results.at(begin * size, (end - begin) * size);
  }

  #checkOpen(): void {
    if (this.#closed) throw errors.CollectiveSpent({ epoch: this.epoch, reason: "it was closed" });
  }

  #checkCount(count: number, dtype: DType): void {
    checkWhole("count", count, { min: 0, max: Math.floor(this.capacityBytes / elementBytes[dtype]) });
  }

  #checkRank(field: string, rank: number): void {
    checkWhole(field, rank, { min: 0, max: this.worldSize - 1 });
  }
}
