/**
 * The table of the largest message of every kind, which is printed. What the schema of a kind bounds below the limit of its messages can not be too
 * large. The others are bounded by what they describe: each of them is made here at the largest sizes that a job may have.
 */
import { expect, it } from "vitest";
import { payloadBytesMax, smallBytesMax } from "../src/envelope.ts";
import { type Body, flawOf, type Kind, messageTable, pack } from "../src/index.ts";
import { messageKinds, ranksMax } from "../src/internal.ts";
import { writeJson } from "../src/json.ts";
import { operatorKinds } from "../src/messages/fleet.ts";
import { groupsMessageBytesMax } from "../src/pieces.ts";
import { json, largestBytes, packed } from "./largest.ts";
import { sampleMessage } from "./samples.ts";

/** What surrounds a body: ids and counters, all as long as they may be. */
const envelopeBytes = 1_024;
const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
const longest = Number.MAX_SAFE_INTEGER;
const id = (i: number) => `${i}-`.padEnd(48, "x");
const version = { lineage: longest, version: longest };
const attempt = { step: longest, attempt: longest, epoch: longest };
const sections = many(4, () => ({ name: "optimizer" as const, bytes: longest, digest: "d".repeat(128) }));
/** A path of a socket has 108 bytes at most, the address of a port fewer; a replica serves at one of each. */
const addresses = [`unix:${"p".repeat(108)}`, `tcp:[${"f".repeat(39)}]:65535`];
/** A file system takes no path of more bytes. */
const path = (i: number) => `/${i}`.padEnd(4_096, "p");
/** `batch.groups_per_step` is 4,096 at most. */
const groupIds = many(4_096, (i) => `${longest}.${i}`);

/** 4,096 processes with a shard each: what is said of each of them lies elsewhere. */
const ranks = { of: ranksMax, bytes: 2 ** 22, digest: "d".repeat(128) };
const inShards = sections.map((section) => ({ ...section, shards: { of: ranksMax, bytes: 2 ** 22 } }));
const rankHolders = many(64, (i) => ({ id: id(i), addresses, training: addresses, ranks }));

/** Bodies of the kinds whose schema alone lets through more than a message can carry. */
const sized: { readonly [K in Kind]?: Body<K> } = {
  // The compiled configuration, in characters of ASCII and others.
  "replica.registered": { dataKey: new Uint8Array(32), config: "配".repeat(200_000) },
  // 4,096 replicas and 1,024 ranks, and 256 devices that have one holder each.
  "node.assign": {
    revision: longest,
    replicas: many(4_096, (i) => {
      return { id: id(i), role: "checkpoint", life: longest, devices: i < 256 ? ["GPU-".padEnd(64, "f")] : [] };
    }),
    ranks: many(1_024, (i) => ({
      ...{ id: id(i), role: "checkpoint", rank: 4_095, life: longest, isDue: false, size: 4_096, localRank: 4_095 },
      ...{ localSize: 4_096, nodeRank: 4_095, master: { address: "h".repeat(256), port: 65_535 }, devices: [] },
    })),
  },
  // 1,024 trainers, on several hosts; what is said of ranks is not longer than a place.
  "mesh.build": {
    epoch: longest,
    members: many(1_024, (i) => ({ id: id(i), incarnation: id(i), place: { host: "h".repeat(128), addresses } })),
  },
  // Every group in a message of its own.
  "step.run": { ...attempt, ...version, batch: groupIds.map((group) => ({ streamSeq: longest, groupIds: [group] })) },
  // Nobody came, and nothing of the batch can be read.
  "step.voted": {
    ...attempt,
    vote: "abort",
    finite: false,
    sections,
    cause: "原".repeat(2_000),
    missing: many(1_024, id),
    unreadable: many(64, (i) => ({ streamSeq: longest, groupIds: groupIds.slice(64 * i, 64 * (i + 1)) })),
  },
  "checkpoint.save": {
    step: longest,
    ...version,
    sections: inShards,
    holders: rankHolders,
    groupsWatermark: longest,
    pinned: path(0),
    fallbacks: many(64, path),
    shards: { of: 1_024, write: many(1_024, (i) => i + 1) },
    ledger: { admitted: longest, trained: longest, aborted: longest, quarantined: longest },
  },
  "step.committed": {
    ...(sampleMessage("step.committed").body as Body<"step.committed">),
    ...attempt,
    sections,
    groups: groupIds,
  },
  // What is stored is cut into pieces of so many bytes, body by body: the rest is for the envelope.
  "groups.piece": { bytes: new Uint8Array(groupsMessageBytesMax) },
};
/** Their bodies are cut by their bytes before they leave, into pieces where one group is too large: `actors/test/stored-bodies.test.ts`. */
const cut: readonly Kind[] = ["groups.batch", "groups.begun"];

/** Bytes of the largest message of a kind, and of the largest that may be. */
function rowOf(kind: Kind) {
  const { direction, body, ...rest } = messageTable[kind];
  const isJson = direction === "event" || (operatorKinds as readonly Kind[]).includes(kind);
  const limit = direction === "report" && !("isLarge" in rest) ? smallBytesMax : payloadBytesMax;
  const bySchema = largestBytes(body, isJson ? json : packed) + envelopeBytes;
  const example = sized[kind];
  const size = example && (isJson ? writeJson(example) : pack(example)).byteLength + envelopeBytes;
  return {
    kind,
    limit,
    bySchema,
    bytes: cut.includes(kind) ? limit : (size ?? bySchema),
    flaw: example ? flawOf(kind, example) : null,
  };
}

it("every message of every kind fits, at the largest sizes that a job may have", () => {
  const rows = messageKinds.map(rowOf);
  const line = ({ kind, bytes, limit, bySchema }: (typeof rows)[number]) =>
    `${kind.padEnd(20)} ${String(bytes).padStart(9)} of ${String(limit).padStart(9)} bytes${bySchema > limit ? "  (made)" : ""}`;
  process.stdout.write(`${rows.map(line).join("\n")}\n`);
  expect(rows.filter(({ flaw }) => flaw !== null)).toEqual([]);
  expect(rows.filter(({ bytes, limit }) => bytes > limit)).toEqual([]);
  // A kind that its schema bounds needs no example, and one that it does not bound has one.
  const unbounded = rows.flatMap(({ kind, bySchema, limit }) => (bySchema > limit ? kind : []));
  expect(unbounded.toSorted()).toEqual([...(Object.keys(sized) as Kind[]), ...cut].toSorted());
});
