/** A process of `muster bench allreduce`: one rank of a group. */
import { allReduceTensors, type CollectiveGroup, openGroup, type ReducedTensor } from "@muster/collectives";
import { serveCalls, sharedClock } from "../members.ts";

/** What all ranks do: `repeats` times, in float32. */
export interface AllReduceTask {
  readonly bytes: number;
  readonly repeats: number;
}

/** Who forms the group over gloo. */
export interface GlooGroup {
  readonly rank: number;
  readonly members: readonly string[];
  readonly socketDir: string;
  /** Counts the groups. */
  readonly epoch: number;
}

const key = new Uint8Array(32).fill(9);
/** Steps before those that count, where many tensors are handed over. */
const warmUps = 10;
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
    return await timed(opened(), repeats, async (ranks) => {
      await ranks.allReduce({ dtype: "f32", count: bytes / 4, ...waiting });
    });
  },
  /** Gloo in these same processes: from memory of this rank's own to memory of this rank's own, in a group that is there for this alone. */
  async gloo({ bytes, repeats, ...options }: AllReduceTask & GlooGroup) {
    const transport = { transport: "gloo", name: "allreduce-gloo", capacityBytes: bytes } as const;
    const ranks = await openGroup({ key, job: "bench", ...transport, ...waiting, ...options });
    try {
      new Float32Array(ranks.input.buffer).fill(1);
      return await timed(ranks, repeats, async () => {
        await ranks.allReduce({ dtype: "f32", count: bytes / 4, ...waiting });
      });
    } finally {
      ranks.close();
    }
  },
  /** The result ends up in memory that is this rank's own. */
  async own({ bytes, repeats }: AllReduceTask) {
    const into = own.subarray(0, bytes);
    return await timed(opened(), repeats, async (ranks) => {
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
    const reduce = (ranks: CollectiveGroup) => allReduceTensors(ranks, list, waiting);
    // A job has done thousands of steps: by then V8 has compiled what goes over the list.
    await timed(opened(), warmUps, reduce);
    return await timed(opened(), repeats, reduce);
  },
});

function opened(): CollectiveGroup {
  if (!group) throw new RangeError("the group is not open");
  return group;
}

/** Seconds of each repeat, from a barrier until every rank is done, as the peers count; one repeat before them warms up. */
async function timed(
  ranks: CollectiveGroup,
  repeats: number,
  work: (ranks: CollectiveGroup) => Promise<void>,
): Promise<number[]> {
  const seconds: number[] = [];
  for (let i = 0; i <= repeats; i++) {
    await ranks.barrier(waiting);
    const startedAt = sharedClock();
    await work(ranks);
    await ranks.barrier(waiting);
    if (i > 0) seconds.push(sharedClock() - startedAt);
  }
  return seconds;
}
