/** One version from one process down a chain of hosts: network namespaces of this machine, with links of a given rate. */
import { openTestHosts, type TestHost } from "@muster/runtime";
import { errors } from "../../errors.ts";
import type { Peer } from "../peers.ts";
import { type BenchRow, rowOf } from "../report.ts";
import { settle } from "../settle.ts";
import { Chain, type Crossing } from "./chain.ts";

/** What to measure. */
export interface SeveralHostsOptions {
  readonly hosts: number;
  /** Mbit/s of each host's link, in each direction. */
  readonly linkMbit: number;
  readonly bytes: number;
  readonly rounds: number;
  /** Those that can run over several hosts take part. */
  readonly peers: readonly Peer[];
  /** Existing folder for sockets. */
  readonly socketDir: string;
  readonly signal: AbortSignal;
  /** Takes a line about each round. */
  readonly onProgress: (line: string) => void;
}

interface Round {
  readonly quiet: Crossing;
  /** `null` when the chain is too short to have a middle. */
  readonly killed: Crossing | null;
  readonly frozen: Crossing | null;
  readonly gloo: number | null;
}

/** Share of the line rate, how many times as fast as gloo, and how many times as fast as the undisturbed chain it has to be. */
const targets = { line: 0.95, gloo: 5, killed: 1 / 1.03, frozen: 1 / 1.15 } as const;
/** Share of a full Ethernet frame that is payload of TCP. */
const payloadShare = 1448 / 1514;
/** When the replica is killed or frozen, as a share of the undisturbed time of the same round. */
const midway = 0.45;

/**
 * Measures, in turns: the chain, the chain with a replica killed and with one frozen midway, and gloo's broadcast between the same hosts.
 *
 * @throws MUSTER_ERR_BENCH_HOSTS where there can be no network namespaces.
 */
export async function benchSeveralHosts(options: SeveralHostsOptions): Promise<readonly BenchRow[]> {
  const network = openTestHosts({ count: options.hosts, rate: `${options.linkMbit}mbit` });
  if ("missing" in network) throw errors.BenchHosts({ reason: network.missing });
  try {
    return rowsOf(options, await measure(options, network.hosts));
  } finally {
    network.close();
  }
}

async function measure(options: SeveralHostsOptions, hosts: readonly TestHost[]): Promise<readonly Round[]> {
  const { bytes, rounds, socketDir, signal, onProgress } = options;
  const gloo = options.peers.find(({ name }) => name === "gloo");
  const chain = await Chain.open({ hosts, bytes, socketDir }, signal);
  try {
    const out: Round[] = [];
    while (out.length < rounds) {
      await settle(hosts.length * bytes, signal);
      const quiet = await chain.send();
      const mishap = (kind: "killed" | "frozen") => chain.send({ kind, after: midway * quiet.seconds });
      const killed = hosts.length > 2 ? await mishap("killed") : null;
      await settle(hosts.length * bytes, signal);
      const frozen = hosts.length > 2 ? await mishap("frozen") : null;
      const round = { quiet, killed, frozen, gloo: gloo ? await glooSeconds(gloo, options, hosts) : null };
      out.push(round);
      onProgress(`round ${out.length} of ${rounds}: ${roundText(round)}`);
    }
    return out;
  } finally {
    await chain.close();
  }
}

async function glooSeconds(
  gloo: Peer,
  { bytes, signal }: SeveralHostsOptions,
  namespaces: readonly TestHost[],
): Promise<number> {
  const task = { operation: "broadcast", world: namespaces.length, bytes, repeats: 1, namespaces, signal } as const;
  const { seconds } = await gloo.run(task);
  return seconds[0] ?? Number.NaN;
}

function roundText({ quiet, killed, frozen, gloo }: Round): string {
  const parts = { undisturbed: quiet.seconds, killed: killed?.seconds, frozen: frozen?.seconds, gloo };
  return Object.entries(parts)
    .flatMap(([name, seconds]) => (typeof seconds === "number" ? [`${name} ${seconds.toFixed(2)} s`] : []))
    .join(", ");
}

function rowsOf({ hosts, linkMbit, bytes }: SeveralHostsOptions, measured: readonly Round[]): readonly BenchRow[] {
  const line = bytes / ((linkMbit * 1e6 * payloadShare) / 8);
  const common = { world: hosts, bytes, delivered: bytes * (hosts - 1) };
  const quiet = measured.map((round) => round.quiet);
  const rows = [
    rowOf({
      ...common,
      name: "version down a chain of hosts",
      ...columns(quiet),
      others: [
        { with: `line rate of ${linkMbit} Mbit/s`, seconds: quiet.map(() => line), target: targets.line },
        { with: "gloo", seconds: measured.map(({ gloo }) => gloo), target: targets.gloo },
      ],
    }),
  ];
  for (const kind of ["killed", "frozen"] as const) {
    const crossings = measured.flatMap((round) => round[kind] ?? []);
    if (crossings.length === 0) continue;
    const undisturbed = { with: "the chain undisturbed", seconds: quiet.map(({ seconds }) => seconds) };
    rows.push(
      rowOf({
        ...common,
        delivered: bytes * (hosts - 2),
        name: `version down a chain of hosts, one ${kind} midway`,
        ...columns(crossings),
        others: [{ ...undisturbed, target: targets[kind] }],
      }),
    );
  }
  return rows;
}

function columns(crossings: readonly Crossing[]): { seconds: readonly number[]; cpuSeconds: readonly number[] } {
  return {
    seconds: crossings.map(({ seconds }) => seconds),
    cpuSeconds: crossings.map(({ cpuSeconds }) => cpuSeconds),
  };
}
