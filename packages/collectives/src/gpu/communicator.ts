/** Collectives on device memory, by NCCL: one communicator for each epoch. */
import { checkWhole } from "../check.ts";
import type { NativeCommunicator, NativeGpuCall } from "../native-gpu.ts";
import { operandOf, targetOf } from "./buffers.ts";
import { type GpuStreamWait, type GpuWait, gpuCall, streamOf } from "./wait.ts";

/** Element types: NCCL's number and the size in bytes. */
const dataTypes = {
  int8: [0, 1],
  uint8: [1, 1],
  int32: [2, 4],
  uint32: [3, 4],
  int64: [4, 8],
  uint64: [5, 8],
  float16: [6, 2],
  float32: [7, 4],
  float64: [8, 8],
  bfloat16: [9, 2],
} as const;

const reductions = { sum: 0, product: 1, max: 2, min: 3, mean: 4 } as const;

/** In the order of the addon. */
const collectives = ["allReduce", "broadcast", "reduceScatter", "allGather", "send", "receive"] as const;

/** Type of an element. */
export type GpuDataType = keyof typeof dataTypes;
/** How elements are put together. */
export type GpuReduction = keyof typeof reductions;
/** Kind of an operation. */
export type GpuCollective = (typeof collectives)[number];

/** A place in a buffer: what `Gpu.allocate` returned, from `offset` bytes on (default 0). */
interface Operand {
  readonly buffer: object;
  readonly offset?: number;
}

/** One operation of one rank. */
export interface GpuOperation {
  readonly collective: GpuCollective;
  readonly type: GpuDataType;
  /** Elements: of the result of `reduceScatter`, of one rank's part of `allGather`, of the whole for the others. */
  readonly count: number;
  /** Not for `receive`. */
  readonly from?: Operand;
  /** Not for `send`. May be the same place as `from`, except for `reduceScatter` and `allGather`. */
  readonly to?: Operand;
  /** Default `sum`. */
  readonly reduction?: GpuReduction;
  /** The root of `broadcast`, the other end of `send` and `receive`. */
  readonly peer?: number;
}

/** One rank's place in a communicator. After a failed operation it is spent: close it and form the next epoch, with a fresh id. */
export interface GpuCommunicator {
  readonly ranks: number;
  readonly rank: number;
  /**
   * Runs operations as one group and resolves when the GPU has done them. All ranks run the same groups in the same order; a send and its
   * receive may be in one group. With `stream` they begin when the GPU has done what is queued there; what the caller queues later may use the result
   * once this has resolved.
   *
   * The sum's order is NCCL's, so unlike `GradientMesh.reduce` its bits may depend on the number of ranks.
   *
   * @throws MUSTER_ERR_GPU_TIMEOUT when a rank does not come. A dead rank often looks like this: NCCL notices few deaths by itself.
   * @throws MUSTER_ERR_GPU_PEER_LOST, MUSTER_ERR_GPU_ABORTED, MUSTER_ERR_GPU_SPENT, MUSTER_ERR_GPU_FAILED, MUSTER_ERR_NATIVE_OPTION_INVALID
   */
  run(operations: readonly GpuOperation[], wait: GpuStreamWait): Promise<void>;
  /**
   * A communicator without the ranks `excluded`, which do not call; all others do. This one is spent. When it fails on any rank, all form a
   * new one with a fresh id: that always works.
   *
   * @throws MUSTER_ERR_GPU_MISSING when this NCCL cannot; MUSTER_ERR_GPU_TIMEOUT, MUSTER_ERR_GPU_SPENT, MUSTER_ERR_GPU_FAILED
   */
  shrink(excluded: readonly number[], wait: GpuWait): Promise<GpuCommunicator>;
  /** Ends a run in progress, and the communicator. Works while a run is blocked. */
  abort(reason: string): void;
  /** Gives it back; in good order together with the other ranks, when nothing has failed. Harmless twice. */
  close(wait: GpuWait): Promise<void>;
}

/** A communicator over its native side. */
export class OpenCommunicator implements GpuCommunicator {
  readonly ranks: number;
  readonly rank: number;
  readonly #native: NativeCommunicator;

  constructor(communicator: NativeCommunicator) {
    this.#native = communicator;
    this.ranks = communicator.ranks;
    this.rank = communicator.rank;
  }

  async run(operations: readonly GpuOperation[], wait: GpuStreamWait): Promise<void> {
    const calls = operations.map((operation) => callOf(operation, this.ranks));
    const stream = streamOf(wait);
    await gpuCall("a collective", wait, (native) => this.#native.run({ calls, stream, ...native }));
  }

  async shrink(excluded: readonly number[], wait: GpuWait): Promise<GpuCommunicator> {
    for (const rank of excluded) checkWhole("excluded", rank, { min: 0, max: this.ranks - 1 });
    const child = await gpuCall("shrinking", wait, (native) => this.#native.shrink({ excluded, ...native }));
    return new OpenCommunicator(child);
  }

  abort(reason: string): void {
    this.#native.abort(reason);
  }

  async close(wait: GpuWait): Promise<void> {
    await gpuCall("closing the communicator", wait, (native) => this.#native.close(native));
  }
}

/** An operation in the addon's numbers. Pure but for the check of its buffers. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
function callOf(operation: GpuOperation, ranks: number): NativeGpuCall {
  const { collective, count, peer = 0 } = operation;
  const [type, elementBytes] = dataTypes[operation.type];
  checkWhole("count", count, { min: 1, max: 2 ** 44 });
  checkWhole("peer", peer, { min: 0, max: ranks - 1 });
  const part = count * elementBytes;
  const place = (field: "from" | "to", operand: Operand | undefined, bytes: number) =>
    (field === "to" ? targetOf : operandOf)(field, operand?.buffer ?? {}, operand?.offset ?? 0, bytes);
  return {
    collective: collectives.indexOf(collective),
    from:
      collective === "receive"
        ? null
        : place("from", operation.from, collective === "reduceScatter" ? part * ranks : part),
    to: collective === "send" ? null : place("to", operation.to, collective === "allGather" ? part * ranks : part),
    count,
    type,
    reduction: reductions[operation.reduction ?? "sum"],
    peer,
  };
}
