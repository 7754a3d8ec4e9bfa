/** A version of many small sections, as an engine that keeps each tensor by itself has it, beside one of as many bytes in one section. */
import type { SectionInfo } from "@muster/collectives";
import { type Answer, endMembers, Member } from "../members.ts";
import { type BenchRow, rowOf } from "../report.ts";

/** What to measure. */
export interface ManySectionsOptions {
  readonly rounds: number;
  /** Existing folder for sockets. */
  readonly socketDir: string;
  readonly signal: AbortSignal;
}

/** Sections of the version, and bytes of each. */
const pieces = 1000;
const pieceBytes = 64 * 1024;
/** Pairs in a round; they are short, so that a median of a few says little. */
const pairsPerRound = 4;
/** Rounds that make slots and memory warm. */
const warmUps = 4;

/** Measures publication and pull by another process of the host, in turns. */
export async function benchManySections({ rounds, socketDir, signal }: ManySectionsOptions): Promise<BenchRow> {
  const bytes = pieces * pieceBytes;
  const members = [new Member("weights/member"), new Member("weights/member")] as const;
  const stop = (): void => void endMembers(members);
  signal.addEventListener("abort", stop, { once: true });
  try {
    const opened = await members[0].call("open", {
      member: "source",
      socketDir,
      tcpHost: null,
      slotBytes: bytes + 4096,
    });
    const holders = opened.value as readonly string[];
    const times = { many: [] as number[], one: [] as number[], cpu: [] as number[] };
    let version = 0;
    for (let round = -warmUps; round < rounds * pairsPerRound; round++) {
      const many = await transfer(members, { holders, version: ++version, pieces });
      const one = await transfer(members, { holders, version: ++version, pieces: 1 });
      if (round < 0) continue;
      times.many.push(many.seconds);
      times.cpu.push(many.cpuSeconds);
      times.one.push(one.seconds);
    }
    return rowOf({
      name: `${pieces} sections of 64 KiB, published and pulled`,
      world: members.length,
      bytes,
      seconds: times.many,
      cpuSeconds: times.cpu,
      delivered: bytes,
      others: [{ with: "one section of as many bytes", seconds: times.one, target: 1 / 1.1 }],
    });
  } finally {
    signal.removeEventListener("abort", stop);
    await endMembers(members);
  }
}

async function transfer(
  [source, reader]: readonly [Member, Member],
  wanted: { readonly holders: readonly string[]; readonly version: number; readonly pieces: number },
): Promise<{ readonly seconds: number; readonly cpuSeconds: number }> {
  const id = { lineage: 0, version: wanted.version };
  const size = { bytes: pieces * pieceBytes, pieces: wanted.pieces };
  const published = await source.call("publish", { id, ...size });
  const sections = published.value as readonly SectionInfo[];
  const pulled = await reader.call("pull", { id, sections, holders: wanted.holders, ...size });
  // Telling the reader what to pull is not part of it: messages between actors do that.
  const took = ({ startedAt, endedAt }: Answer): number => endedAt - startedAt;
  return { seconds: took(published) + took(pulled), cpuSeconds: published.cpuSeconds + pulled.cpuSeconds };
}
