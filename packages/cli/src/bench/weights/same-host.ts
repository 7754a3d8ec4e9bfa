/** One version from one process to the others of the same host. */
import type { SectionInfo } from "@muster/collectives";
import { copiesLimit, fanOutLimit } from "../machine.ts";
import { type Answer, endMembers, Member, sharedClock } from "../members.ts";
import type { Peer } from "../peers.ts";
import { type BenchRow, rowOf } from "../report.ts";
import { settle } from "../settle.ts";

/** What to measure. */
export interface SameHostOptions {
  readonly world: number;
  readonly bytes: number;
  readonly rounds: number;
  readonly peers: readonly Peer[];
  /** Existing folder for sockets. */
  readonly socketDir: string;
  readonly signal: AbortSignal;
}

interface Round {
  readonly publish: Times;
  /** The median of several in a row, as of the peers. */
  readonly pull: Times;
  /** The first of them: other work has used caches and memory since the round before. */
  readonly firstPull: Times;
  readonly map: Times;
  readonly look: Times;
  readonly limit: number;
  readonly copies: number;
  /** In the order of the peers. */
  readonly peers: readonly Times[];
}

interface Times {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

/** How many times as fast as a peer pulling has to be, and which share of the limit it has to reach. */
const targets = { "Open MPI": 4, gloo: 7, limit: 0.85 } as const;
/** Times in a row that a round has us and each peer do it; the median counts. */
const repeats = 3;

/** Measures, in turns: the limit, the limit of copies that each read the source, publishing, pulling into own memory, mapping, looking at it, and the peers. */
export async function benchSameHost(options: SameHostOptions): Promise<readonly BenchRow[]> {
  const { world, bytes, rounds, peers } = options;
  const measured = await measure(options);
  const receivers = world - 1;
  const of = (pick: (round: Round) => Times) => ({
    seconds: measured.map((round) => pick(round).seconds),
    cpuSeconds: measured.map((round) => pick(round).cpuSeconds),
  });
  const againstPeers = (wanted: boolean) =>
    peers.map(({ name }, i) => ({
      with: name,
      seconds: measured.map((round) => round.peers[i]?.seconds ?? null),
      target: wanted ? targets[name] : null,
    }));
  const common = { world, bytes };
  const limit = { with: "limit of the host", seconds: measured.map((round) => round.limit) };
  const copies = { with: "as many copies, each read anew", seconds: measured.map((round) => round.copies) };
  const mapTarget = { with: "5 ms per GiB", seconds: measured.map(() => (0.005 * bytes) / 2 ** 30), target: 1 };
  const both = of(({ publish, firstPull }) => ({
    seconds: publish.seconds + firstPull.seconds,
    cpuSeconds: publish.cpuSeconds + firstPull.cpuSeconds,
  }));
  return [
    rowOf({
      ...common,
      ...of(({ pull }) => pull),
      name: "published version into the memory of all receivers",
      delivered: bytes * receivers,
      others: [{ ...limit, target: targets.limit }, { ...copies, target: null }, ...againstPeers(true)],
    }),
    rowOf({
      ...common,
      ...of(({ firstPull }) => firstPull),
      name: "published version into the memory of all receivers, the first time after other work",
      delivered: bytes * receivers,
      others: [{ ...limit, target: null }],
    }),
    rowOf({
      ...common,
      ...of(({ map }) => map),
      name: "published version mapped by all receivers",
      delivered: bytes * receivers,
      others: [mapTarget],
    }),
    rowOf({
      ...common,
      ...of(({ look }) => look),
      name: "published version mapped by all receivers and looked at from JavaScript",
      delivered: bytes * receivers,
      others: [],
    }),
    rowOf({ ...common, ...of(({ publish }) => publish), name: "publication", delivered: bytes, others: [] }),
    rowOf({
      ...common,
      ...both,
      name: "publication, then into the memory of all receivers",
      delivered: bytes * receivers,
      others: [{ ...limit, target: null }, ...againstPeers(false)],
    }),
  ].map((row) => ({ ...row, rounds }));
}

async function measure(options: SameHostOptions): Promise<readonly Round[]> {
  const { world, bytes, rounds, socketDir, signal } = options;
  const members = Array.from({ length: world }, () => new Member("weights/member"));
  const stop = (): void => void endMembers(members);
  signal.addEventListener("abort", stop, { once: true });
  try {
    const [source] = members;
    const opened = await source?.call("open", { member: "source", socketDir, tcpHost: null, slotBytes: bytes + 4096 });
    const addresses = opened?.value as readonly string[];
    const out: Round[] = [];
    // Two rounds more than are counted: both slots and the memory of all receivers are warm after them, as in a job that has run for a while.
    for (let version = 1; version <= rounds + 2; version++) {
      signal.throwIfAborted();
      await settle(world * bytes, signal);
      const round = await ourRound(members, addresses, { version, bytes });
      if (version > 2) out.push({ ...round, ...(await otherRound(options)) });
    }
    return out;
  } finally {
    signal.removeEventListener("abort", stop);
    await endMembers(members);
  }
}

async function ourRound(
  [source, ...receivers]: readonly Member[],
  holders: readonly string[],
  { version, bytes }: { readonly version: number; readonly bytes: number },
): Promise<Pick<Round, "publish" | "pull" | "firstPull" | "map" | "look">> {
  if (!source) throw new RangeError("no source");
  const id = { lineage: 0, version };
  const { values, ...publish } = await timed(async () => [await source.call("publish", { id, bytes })]);
  const wanted = { id, bytes, holders, sections: values[0] as readonly SectionInfo[] };
  const all = (call: string) => () => Promise.all(receivers.map((receiver) => receiver.call(call, wanted)));
  const firstPull = await timed(all("pull"));
  const pulls: Times[] = [firstPull];
  while (pulls.length < repeats) pulls.push(await timed(all("pull")));
  const pull = pulls.sort((a, b) => a.seconds - b.seconds)[1] ?? firstPull;
  const map = await timed(all("map"));
  const look = await timed(all("look"));
  return { publish, pull, firstPull, map, look };
}

/** From the call until the last member is done, by the clock that they share. */
async function timed(work: () => Promise<readonly Answer[]>): Promise<Times & { readonly values: readonly unknown[] }> {
  const startedAt = sharedClock();
  const answers = await work();
  return {
    seconds: Math.max(...answers.map(({ endedAt }) => endedAt)) - startedAt,
    cpuSeconds: answers.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
    values: answers.map(({ value }) => value),
  };
}

async function otherRound({
  world,
  bytes,
  peers,
  signal,
}: SameHostOptions): Promise<Pick<Round, "limit" | "copies" | "peers">> {
  const limit = await fanOutLimit(bytes, world - 1);
  const copies = await copiesLimit(bytes, world - 1);
  const times: Times[] = [];
  for (const peer of peers) {
    await settle(world * bytes, signal);
    const { seconds, cpuSeconds } = await peer.run({
      operation: "broadcast",
      world,
      bytes,
      repeats,
      signal,
    });
    times.push({ seconds: [...seconds].sort((a, b) => a - b)[1] ?? Number.NaN, cpuSeconds });
  }
  return { limit, copies, peers: times };
}
