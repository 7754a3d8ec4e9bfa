/** A process of `muster bench allreduce`: one rank of a group. */
import { allReduceTensors, type CollectiveGroup, openGroup, type ReducedTensor } from "@muster/collectives";
import { serveCalls, sharedClock } from "../members.ts";

/** What all ranks do: `repeats` times, in float32. */
export interface AllReduceTask {
  readonly bytes: number;
  readonly repeats: number;
}

const key = new Uint8Array(32).fill(9);
const waiting = { deadlineMs: 120_000, signal: new AbortController().signal };

let group: CollectiveGroup | undefined;
let own = new Uint8Array();

serveCalls({
  async open(options: { rank: number; members: string[]; socketDir: string; capacityBytes: number; epoch: number }) {
    group = await openGroup({ key, job: "bench", name: "allreduce", ...waiting, ...options });
    new Float32Array(group.input.buffer).fill(1);
    own = new Uint8Array(options.capacityBytes).fill(1);
  },
  /** All ranks of the host see one result. */
  async shared({ bytes, repeats }: AllReduceTask) {
    return await timed(repeats, async (ranks) => {
      await ranks.allReduce({ dtype: "f32", count: bytes / 4, ...waiting });
    });
  },
  /** The result ends up in memory that is this rank's own. */
  async own({ bytes, repeats }: AllReduceTask) {
    const into = own.subarray(0, bytes);
    return await timed(repeats, async (ranks) => {
      await ranks.allReduce({ dtype: "f32", count: bytes / 4, into, ...waiting });
    });
  },
  /** From memory of this rank's own and back to it, in `tensors` tensors that are handed over one by one. */
  async tensors({ bytes, repeats, tensors }: AllReduceTask & { readonly tensors: number }) {
    const size = bytes / tensors;
    const list = Array.from({ length: tensors }, (_, i): ReducedTensor => {
      const part = own.subarray(i * size, (i + 1) * size);
      return { dtype: "f32", from: part, into: part };
    });
    return await timed(repeats, (ranks) => allReduceTensors(ranks, list, waiting));
  },
});

/** Seconds of each repeat, from a barrier until every rank is done, as the peers count; one repeat before them warms up. */
async function timed(repeats: number, work: (ranks: CollectiveGroup) => Promise<void>): Promise<number[]> {
  if (!group) throw new RangeError("the group is not open");
  const seconds: number[] = [];
  for (let i = 0; i <= repeats; i++) {
    await group.barrier(waiting);
    const startedAt = sharedClock();
    await work(group);
    await group.barrier(waiting);
    if (i > 0) seconds.push(sharedClock() - startedAt);
  }
  return seconds;
}
