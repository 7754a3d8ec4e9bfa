/** The sum of gradients over the processes of one host. */
import { medianOf } from "@muster/base";
import { addUpLimit } from "../machine.ts";
import { type Answer, endMembers, Member } from "../members.ts";
import type { Peer } from "../peers.ts";
import { type BenchRow, rowOf } from "../report.ts";
import { settle } from "../settle.ts";
import type { AllReduceTask } from "./member.ts";

/** What to measure. */
export interface AllReduceOptions {
  readonly world: number;
  /** Bytes of each rank's gradient. */
  readonly sizes: readonly number[];
  readonly rounds: number;
  readonly peers: readonly Peer[];
  /** Measures gloo in the same processes as well. */
  readonly gloo: boolean;
  /** Existing folder for sockets. */
  readonly socketDir: string;
  readonly signal: AbortSignal;
  readonly onRow: (row: BenchRow) => void;
}

interface Times {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** How many times as fast as a peer. */
const peerTarget = 7;
/** Repeats in a round; their median counts. */
const repeats = 5;
/** 1000 tensors of 64 KiB are to take at most a tenth longer than one of their size. */
export const manyTensors = { tensors: 1000, bytes: 1000 * 64 * 1024, target: 1 / 1.1 } as const;

/** Measures, in turns, for each size: the limit, a shared result, a result for each rank, the peers; then many small tensors. */
export async function benchAllReduce(options: AllReduceOptions): Promise<void> {
  const { world, sizes, socketDir, signal, onRow } = options;
  const members = Array.from({ length: world }, () => new Member("allreduce/member"));
  const stop = (): void => void endMembers(members);
  signal.addEventListener("abort", stop, { once: true });
  try {
    const capacityBytes = Math.max(manyTensors.bytes, ...sizes);
    const names = members.map((_, rank) => `rank-${rank}`);
    const common = { members: names, socketDir, capacityBytes, epoch: world };
    await Promise.all(members.map((member, rank) => member.call("open", { ...common, rank })));
    for (const bytes of sizes) for (const row of await rowsOfSize(options, members, bytes)) onRow(row);
    onRow(await rowOfTensors(options, members));
  } finally {
    signal.removeEventListener("abort", stop);
    await endMembers(members);
  }
}

async function rowsOfSize(options: AllReduceOptions, members: readonly Member[], bytes: number): Promise<BenchRow[]> {
  const { world, rounds, peers, gloo, signal } = options;
  const measured: { limit: number; shared: Times; own: Times; peers: Times[] }[] = [];
  const names = [...peers.map(({ name }) => name), ...(gloo ? ["gloo (in process)"] : [])];
  for (let round = 0; round < rounds; round++) {
    signal.throwIfAborted();
    const limit = await addUpLimit(bytes, world);
    await settle(world * bytes, signal);
    const shared = await onAll(members, "shared", { bytes, repeats });
    const own = await onAll(members, "own", { bytes, repeats });
    const others: Times[] = [];
    for (const peer of peers) {
      await settle(world * bytes, signal);
      const { seconds, cpuSeconds } = await peer.run({ operation: "allreduce", world, bytes, repeats, signal });
      others.push({ seconds: medianOf(seconds), cpuSeconds });
    }
    await settle(world * bytes, signal);
    if (gloo) others.push(await glooInProcess(options, members, bytes));
    measured.push({ limit, shared, own, peers: others });
  }
  return (["own", "shared"] as const).map((kind) =>
    rowOf({
      name: kind === "own" ? "all-reduce into each rank's own memory" : "all-reduce, one result for the host",
      world,
      bytes,
      seconds: measured.map((each) => each[kind].seconds),
      cpuSeconds: measured.map((each) => each[kind].cpuSeconds),
      delivered: bytes * world,
      others: [
        { with: "limit of the host", seconds: measured.map(({ limit }) => limit), target: null },
        ...names.map((name, i) => ({
          with: name,
          seconds: measured.map((each) => each.peers[i]?.seconds ?? null),
          target: peerTarget,
        })),
      ],
    }),
  );
}

let glooGroups = 0;

async function glooInProcess(
  { socketDir }: AllReduceOptions,
  members: readonly Member[],
  bytes: number,
): Promise<Times> {
  const common = { members: members.map((_, rank) => `rank-${rank}`), socketDir, epoch: ++glooGroups, bytes, repeats };
  return timesOf(await Promise.all(members.map((member, rank) => member.call("gloo", { ...common, rank }))));
}

async function rowOfTensors(
  { world, rounds, signal }: AllReduceOptions,
  members: readonly Member[],
): Promise<BenchRow> {
  const { tensors, bytes, target } = manyTensors;
  const pairs: { fused: Times; one: Times }[] = [];
  await settle(world * bytes, signal);
  for (let round = 0; round < rounds; round++) {
    signal.throwIfAborted();
    const one = await onAll(members, "tensors", { bytes, repeats, tensors: 1 });
    pairs.push({ one, fused: await onAll(members, "tensors", { bytes, repeats, tensors }) });
  }
  return rowOf({
    name: "1000 tensors of 64 KiB, fused",
    world,
    bytes,
    seconds: pairs.map(({ fused }) => fused.seconds),
    cpuSeconds: pairs.map(({ fused }) => fused.cpuSeconds),
    delivered: bytes * world,
    others: [{ with: "one tensor of that size", seconds: pairs.map(({ one }) => one.seconds), target }],
  });
}

/** The same call on all members: the median of the slowest member's repeats, and the CPU time of one. */
async function onAll(
  members: readonly Member[],
  call: "shared" | "own" | "tensors",
  task: AllReduceTask & { readonly tensors?: number },
): Promise<Times> {
  return timesOf(await Promise.all(members.map((member) => member.call(call, task))));
}

function timesOf(answers: readonly Answer[]): Times {
  return {
    seconds: Math.max(...answers.map(({ value }) => medianOf(value as readonly number[]))),
    cpuSeconds: answers.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) / (repeats + 1),
  };
}
