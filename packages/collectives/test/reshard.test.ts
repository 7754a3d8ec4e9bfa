import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ModelTensor,
  type ParallelLayout,
  planReshard,
  pullShards,
  ranksOf,
  type SectionInfo,
  type ShardSource,
} from "../src/index.ts";
import { digestOf } from "../src/internal.ts";
import { buildPackage, Child } from "./support/children.ts";
import { job, key, never, relay, socketFolder } from "./support/fixtures.ts";
import { splitNaively } from "./support/model.ts";

const id = { lineage: 0, version: 3 };
const policy: ParallelLayout = { tp: 2, pp: 2, dp: 2 };
const rollout: ParallelLayout = { tp: 3, pp: 1, dp: 1 };
const tensors: readonly ModelTensor[] = [
  { name: "embedding", shape: [3001, 256], elementBytes: 2, partition: 0, layer: "first" },
  ...[0, 1, 2, 3].flatMap((layer): ModelTensor[] => [
    { name: `layers.${layer}.up`, shape: [512, 1024], elementBytes: 2, partition: 1, layer },
    { name: `layers.${layer}.down`, shape: [1024, 512], elementBytes: 2, partition: 0, layer },
    { name: `layers.${layer}.norm`, shape: [512], elementBytes: 4, partition: null, layer },
  ]),
  { name: "head", shape: [3001, 256], elementBytes: 2, partition: 0, layer: "last" },
];
const plans = planReshard(tensors, policy, rollout);

let folder: ReturnType<typeof socketFolder>;
const children: Child[] = [];
let expected: Uint8Array[];
let held: { addresses: string[]; section: SectionInfo }[];

/** Real processes, one for each policy rank, each with the section of its rank. */
beforeAll(async () => {
  buildPackage();
  folder = socketFolder();
  expected = plans.map(({ rank }) => splitNaively(tensors, rollout, rank));
  held = await Promise.all(
    Array.from({ length: ranksOf(policy) }, (_, rank) => {
      const path = join(folder.path, `rank-${rank}`);
      writeFileSync(path, splitNaively(tensors, policy, rank));
      const child = new Child();
      children.push(child);
      const options = { member: `policy-${rank}`, socketDir: folder.path, tcpHost: "127.0.0.1", path, id };
      return child.call<(typeof held)[number]>("holdFile", options);
    }),
  );
}, 60_000);
afterAll(() => {
  for (const child of children) child.kill();
  folder.remove();
});

/** Each rank at this kind of address, then its data-parallel copy. */
function sourcesBy(kind: "unix:" | "tcp:"): ShardSource[] {
  const copies = ranksOf(policy) / policy.dp;
  const addressOf = (rank: number): string => held[rank]!.addresses.find((address) => address.startsWith(kind))!;
  return held.map(({ section }, rank) => ({
    section,
    holders: [addressOf(rank), addressOf((rank + copies) % ranksOf(policy))],
  }));
}

function optionsFor(rank: number, sources: readonly ShardSource[]) {
  const plan = plans[rank]!;
  const into = new Uint8Array(plan.sectionBytes);
  return { key, job, member: `rollout-${rank}`, id, plan, sources, into, deadlineMs: 20_000, signal: never };
}

const isRight = (into: Uint8Array, rank: number): boolean => Buffer.compare(into, expected[rank]!) === 0;

describe("the ranks of a rollout replica", () => {
  it.each(["unix:", "tcp:"] as const)(
    "get their cut of a model that policy ranks have cut another way, by %s",
    async (kind) => {
      for (let rank = 0; rank < ranksOf(rollout); rank++) {
        const options = optionsFor(rank, sourcesBy(kind));
        const { bytes, wireBytes } = await pullShards(options);
        expect(isRight(options.into, rank)).toBe(true);
        expect(bytes).toBe(options.plan.slices.reduce((sum, slice) => sum + slice.bytes * slice.count, 0));
        if (kind === "unix:") expect(wireBytes).toBe(0);
        else expect(wireBytes).toBeGreaterThanOrEqual(bytes);
      }
    },
  );

  it("get over the network nothing but the blocks that their slices lie in", async () => {
    const head = tensors.filter(({ name }) => name === "head" || name === "embedding");
    const [only] = planReshard(head, { tp: 1, pp: 1, dp: 1 }, { tp: 8, pp: 1, dp: 1 });
    const weights = splitNaively(head, { tp: 1, pp: 1, dp: 1 }, 0);
    const path = join(folder.path, "whole");
    writeFileSync(path, weights);
    const child = new Child();
    children.push(child);
    const options = { member: "whole", socketDir: folder.path, tcpHost: "127.0.0.1", path, id };
    const { addresses, section } = await child.call<(typeof held)[number]>("holdFile", options);
    const into = new Uint8Array(only!.sectionBytes);
    const sources = [{ holders: [addresses[1]!], section }];
    const pulled = await pullShards({ ...optionsFor(0, sources), plan: only!, into });
    expect(Buffer.compare(into, splitNaively(head, { tp: 8, pp: 1, dp: 1 }, 0))).toBe(0);
    expect(pulled.wireBytes).toBeLessThan(section.bytes);
    expect(pulled.wireBytes % 2 ** 18).toBe(0);
  });

  it("go on with the copy of a rank that breaks off in the middle, and get nothing twice", async () => {
    const sources = sourcesBy("tcp:");
    const cut = await relay(sources[0]!.holders[0]!, 1_000_000, (reader, holder) => {
      reader.end();
      holder.destroy();
    });
    const broken = sources.map((source, rank) =>
      rank === 0 ? { ...source, holders: [cut.address, source.holders[1]!] } : source,
    );
    const [quiet, options] = [optionsFor(0, sources), optionsFor(0, broken)];
    const { wireBytes } = await pullShards(quiet);
    const again = await pullShards(options);
    expect(isRight(options.into, 0)).toBe(true);
    expect(cut.relayedBytes()).toBeGreaterThanOrEqual(1_000_000);
    expect(again.wireBytes - wireBytes).toBeLessThan(2 ** 18);
    cut.close();
  });

  it("are told when nobody has what they need, or has something else", async () => {
    const wrong = sourcesBy("tcp:").map((source) => ({
      ...source,
      section: { ...source.section, digest: digestOf(new Uint8Array(1)) },
    }));
    const mismatch = pullShards(optionsFor(0, wrong));
    await expect(mismatch).rejects.toMatchObject({ code: "MUSTER_ERR_PULL_DIGEST_MISMATCH" });
    const gone = pullShards({ ...optionsFor(0, sourcesBy("tcp:")), id: { lineage: 0, version: 4 } });
    await expect(gone).rejects.toMatchObject({ code: "MUSTER_ERR_VERSION_GONE" });
    await expect(pullShards(optionsFor(0, []))).rejects.toThrow("sources.");
    const short = { ...optionsFor(0, sourcesBy("tcp:")), into: new Uint8Array(3) };
    await expect(pullShards(short)).rejects.toThrow("into is 3 bytes long");
  });

  it("are served by copies when one policy rank is killed", async () => {
    children[1]!.kill();
    await children[1]!.ended;
    for (const kind of ["unix:", "tcp:"] as const) {
      const options = optionsFor(1, sourcesBy(kind));
      await pullShards(options);
      expect(isRight(options.into, 1)).toBe(true);
    }
  });
});
