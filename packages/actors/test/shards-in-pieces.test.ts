/** Shards of trainers that are larger than one array may be: what ranks load and take, and what others collect of them, piece by piece. */
import { join } from "node:path";
import { randomOf, silentLogger } from "@muster/base";
import { digestOf } from "@muster/collectives/internal";
import { piecesWithPlaces, type RankCut, roomFor, type StateViews } from "@muster/engine";
import { copyOf } from "@muster/engine/internal";
import type { Holder, Section } from "@muster/protocol";
import { placeDensely } from "@muster/tensors";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ports } from "../src/index.ts";
import {
  collectShards,
  cutInto,
  ownTable,
  RankTrainer,
  rankShards,
  regionsOf,
  ticketOf,
  writeRankTicket,
} from "../src/internal.ts";
import { PublishedTexts } from "../src/policy/published-texts.ts";
import { type RankDone, type RankTicket, readAnswer } from "../src/shards/rank-tickets.ts";
import { sectionOfShards } from "../src/shards/sharded-sections.ts";
import { clock } from "./support/environment.ts";
import { ports } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

const pieceMax = 256 * 1024;
const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);
const { signal } = new AbortController();
const id = { lineage: 0, version: 3 };
const job = "shards-in-pieces";
const names = ["weights", "optimizer"] as const;

let directory: TempDirectory;
const open: { close(): Promise<void> }[] = [];
beforeEach(async () => {
  directory = await makeTempDirectory();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  await directory.remove();
});

/** Two ranks, whose shards of the weights have this many bytes each: one tensor is cut by rows, and one by columns. */
const cutOf = (shardBytes: number): RankCut => ({
  ...{ tp: 2, pp: 1 },
  tensors: [
    { name: "columns", shape: [1_000, 128], elementBytes: 1, partition: 1, layer: 0 },
    { name: "rows", shape: [2, shardBytes - 64_000], elementBytes: 1, partition: 0, layer: 0 },
  ],
});

function drawn(bytes: number, seed: number): Uint8Array<ArrayBuffer> {
  const random = randomOf(seed, 7);
  const all = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i += 97) all[i] = random.below(256);
  return all;
}

/** Processes of a trainer, each with a shard of these weights, and an optimizer of as many bytes. */
function ranksOf(replica: string, cut: RankCut, weights: Uint8Array, given: Partial<Ports> = {}) {
  const config = smallConfig(directory.path);
  return [0, 1].map((rank) => {
    const own = {
      ports: { ...ports, pieceMax, ...given },
      clock,
      logger: silentLogger,
      replica,
      rank,
      cut,
      job,
      dataKey,
      config,
    };
    const training = new RankTrainer(own);
    open.push(training);
    const shard = new Uint8Array(training.bytes);
    cutInto(regionsOf(null, cut, rank), weights, shard);
    const optimizer = drawn(shard.length, 100 + rank);
    const live: { state: StateViews; rooms: number[] } = { state: { weights: shard, optimizer }, rooms: [] };
    training.attach({
      optimizerBytes: optimizer.length,
      gradientElements: 1,
      state: () => live.state,
      candidate: () => live.state,
      restore: async (from) => {
        const arriving = { weights: roomFor(shard.length, pieceMax), optimizer: roomFor(shard.length, pieceMax) };
        for (const name of names)
          for (const { piece, from: at } of piecesWithPlaces(arriving[name])) await from[name].copyTo(piece, at);
        live.state = arriving;
      },
    });
    const perform = async (ticket: RankTicket, until = signal): Promise<RankDone> => {
      const text = await training.perform(writeRankTicket({ order: "1", ticket }), until);
      return readAnswer(text, { order: "1", rank, build: ports.engineBuild });
    };
    const has = (): readonly string[] => names.map((name) => digestOf(copyOf(live.state[name])));
    return { perform, has, live };
  });
}

type Ranks = ReturnType<typeof ranksOf>;

/** Publishes everything. @returns What an order says of it. */
async function published(ranks: Ranks): Promise<{ sections: Section[]; holders: Holder[] }> {
  const done: RankDone[] = [];
  for (const { perform } of ranks) done.push(await perform({ do: "publish", ...id, parts: ["serving", "training"] }));
  const listed = names.map(async (name) => {
    const shards = done.flatMap((one) => one.sections.filter((section) => section.name === name));
    const list = shards.map(({ bytes, digest }) => ({ bytes, digest }));
    const bytes = list.reduce((sum, shard) => sum + shard.bytes, 0);
    return await sectionOfShards(ports, { name, bytes, shards: list }, signal);
  });
  const identity = { job, id: "policy-0", role: "policy" as const, incarnation: "policy-0-1" };
  const table = await ownTable(ports, [], signal);
  const tools = { ports, config: smallConfig(directory.path), dataKey, identity, table };
  const texts = await PublishedTexts.open(tools, done);
  open.push(texts);
  const { sections, ...where } = await texts.publish(id, await Promise.all(listed), ["serving", "training"]);
  return { sections: [...sections], holders: [{ id: "policy-0", ...where }] };
}

const puller = (given: Partial<Ports> = {}) => ({
  ...{ pullShards: ports.pullShards, pull: ports.pull, pieceMax, ...given },
  ...{ clock, job, member: "reader", dataKey, config: smallConfig(directory.path) },
});

/** At the border of two pieces, and on both sides of it. */
const borders = [2 * pieceMax - 1, 2 * pieceMax, 2 * pieceMax + 1] as const;

describe.each(borders)("shards of %i bytes", (bytes) => {
  const cut = cutOf(bytes);
  const weights = drawn(2 * bytes, 1);

  it("come to the same ranks of another trainer as they were", async () => {
    const held = ranksOf("policy-0", cut, weights);
    const { sections, holders } = await published(held);
    const joiner = ranksOf("policy-1", cut, drawn(2 * bytes, 2));
    for (const { perform } of joiner) await perform({ do: "pull", order: 1, ...id, sections, holders });
    for (const { perform } of joiner) await perform({ do: "adopt", order: 1 });
    expect(joiner.map(({ has }) => has())).toEqual(held.map(({ has }) => has()));
  });

  it.each([pieceMax / 2, pieceMax, 2 * bytes - 1, 2 * bytes])(
    "are collected in pieces of at most %i bytes",
    async (size) => {
      const held = ranksOf("policy-0", cut, weights);
      const { sections, holders } = await published(held);
      const rooms: number[] = [];
      const pullShards: Ports["pullShards"] = (options) => {
        rooms.push(options.into.byteLength);
        return ports.pullShards(options);
      };
      const collected = await collectShards(
        puller({ pullShards, pieceMax: size }),
        { ...id, sections, holders },
        { cut, signal },
      );
      const whole = new Uint8Array(2 * bytes);
      await collected.sections.weights?.copyTo(whole);
      expect(digestOf(whole)).toBe(digestOf(weights));
      await collected.sections.optimizer?.copyTo(whole);
      expect(digestOf(whole)).toBe(digestOf(Buffer.concat(held.map(({ live }) => copyOf(live.state.optimizer)))));
      expect(rooms).toHaveLength(2 * Math.ceil((2 * bytes) / size));
      expect(Math.max(...rooms)).toBe(size);
      const across = new Uint8Array(100);
      await collected.sections.weights?.copyTo(across, size - 100);
      expect(across).toEqual(weights.subarray(size - 100, size));
    },
  );

  it("come to a rank of a sampler that has memory in pieces for them", async () => {
    const { sections, holders } = await published(ranksOf("policy-0", cut, weights));
    const [rank, trainers] = [0, cut];
    const given = { ports, clock, logger: silentLogger, replica: "rollout-0", job, dataKey };
    const sampler: RankCut = { ...cut, tp: 1 };
    const shards = rankShards({ ...given, config: smallConfig(directory.path), rank, cut: sampler, trainers });
    const room = roomFor(shards.bytes, pieceMax);
    const ticket = ticketOf({ ...id, order: "one", sections, holders });
    const receipt = JSON.parse(await shards.pull(ticket, room, signal));
    const expected = new Uint8Array(shards.bytes);
    cutInto(regionsOf(null, sampler, 0), weights, expected);
    expect(digestOf(copyOf(room))).toBe(digestOf(expected));
    expect(receipt).toMatchObject({ bytes: shards.bytes, digest: digestOf(expected) });
    await expect(shards.pull(ticket, roomFor(shards.bytes + 1, pieceMax), signal)).rejects.toMatchObject({
      code: "MUSTER_ERR_SHARD_ROOM",
      params: { rank: 0, bytes: shards.bytes + 1, wanted: shards.bytes },
    });
  });

  it.each([1, 2])("of a checkpoint in %i files come to each rank in pieces", async (files) => {
    const held = ranksOf("policy-0", cut, weights);
    const path = await checkpointOf(held, cut, files);
    const rooms: number[] = [];
    const loadCheckpointParts: Ports["loadCheckpointParts"] = (from, choose, late) =>
      ports.loadCheckpointParts(from, (info) => choose(info).map((part) => noting(part, rooms)), late);
    const other = ranksOf("policy-1", cut, drawn(2 * bytes, 2), { loadCheckpointParts });
    const optimizer = [bytes, bytes];
    const done = [];
    for (const { perform } of other)
      done.push(await perform({ do: "load", order: 1, path, manifests: null, optimizer }));
    for (const { perform } of other) await perform({ do: "adopt", order: 1 });
    expect(other.map(({ has }) => has())).toEqual(held.map(({ has }) => has()));
    expect(done.map(({ sections }) => sections.map(({ digest }) => digest))).toEqual(held.map(({ has }) => has()));
    expect(rooms).toHaveLength(2 * 2 * Math.ceil(bytes / pieceMax));
    expect(Math.max(...rooms)).toBe(pieceMax);
  });
});

describe("what is given up in the middle", () => {
  const bytes = 2 * pieceMax + 1;
  const cut = cutOf(bytes);

  it("leaves a rank the state that it had, and a version that comes after it is taken", async () => {
    const held = ranksOf("policy-0", cut, drawn(2 * bytes, 1));
    const { sections, holders } = await published(held);
    const path = await checkpointOf(held, cut, 1);
    const stop = new AbortController();
    const loadCheckpointParts: Ports["loadCheckpointParts"] = async (from, choose, late) => {
      const read = await ports.loadCheckpointParts(from, (info) => choose(info).slice(0, 2), late);
      stop.abort(new Error("given up"));
      return read;
    };
    const [rank] = ranksOf("policy-1", cut, drawn(2 * bytes, 2), { loadCheckpointParts });
    const before = rank?.has();
    const load = {
      do: "load" as const,
      order: 1,
      path,
      manifests: null,
      optimizer: [bytes, bytes],
    } satisfies RankTicket;
    await expect(rank?.perform(load, stop.signal)).rejects.toThrow("given up");
    await expect(rank?.perform({ do: "adopt", order: 1 })).rejects.toMatchObject({ code: "MUSTER_ERR_ACTOR_NOT_OPEN" });
    expect(rank?.has()).toEqual(before);
    await rank?.perform({ do: "pull", order: 2, ...id, sections, holders });
    expect(rank?.has(), "until it is adopted").toEqual(before);
    await rank?.perform({ do: "adopt", order: 2 });
    expect(rank?.has()).toEqual(held[0]?.has());
  });

  it("gives back the memory of others that it lay in", async () => {
    const { sections, holders } = await published(ranksOf("policy-0", cut, drawn(2 * bytes, 1)));
    let mapped = 0;
    const map: Ports["map"] = async (options) => {
      const version = await ports.map(options);
      mapped += 1;
      return {
        ...version,
        release: () => {
          mapped -= 1;
          version.release();
        },
      };
    };
    const [rank] = ranksOf("policy-1", cut, drawn(2 * bytes, 2), { map });
    const pull = (order: number) => ({ do: "pull", order, ...id, sections, holders }) as const;
    await rank?.perform(pull(1));
    expect(mapped).toBe(2);
    await rank?.perform(pull(2));
    expect(mapped, "another order takes the place of one that nobody adopted").toBe(2);
    await rank?.perform({ do: "adopt", order: 2 });
    expect(mapped).toBe(0);
    const wrong = sections.map((section) => ({ ...section, digest: "shards:xxh3b:0123456789abcdef" }));
    await expect(rank?.perform({ ...pull(3), sections: [sections[0], wrong[1]] as Section[] })).rejects.toMatchObject({
      code: "MUSTER_ERR_PULL_DIGEST_MISMATCH",
    });
    expect(mapped, "the weights were here already").toBe(0);
    await rank?.perform(pull(4));
    await open.at(-2)?.close();
    expect(mapped, "a process that ends").toBe(0);
  });

  it("ends a collection whose holder goes between two pieces, with an error and nothing to use", async () => {
    const held = ranksOf("policy-0", cut, drawn(2 * bytes, 1));
    const { sections, holders } = await published(held);
    let pulls = 0;
    const pullShards: Ports["pullShards"] = async (options) => {
      pulls += 1;
      if (pulls === 2) await Promise.all(open.map((each) => each.close()));
      return await ports.pullShards(options);
    };
    const collecting = collectShards(puller({ pullShards }), { ...id, sections, holders }, { cut, signal });
    await expect(collecting).rejects.toMatchObject({ code: "MUSTER_ERR_PULL_UNREACHABLE" });
    expect(pulls).toBe(2);
  });
});

type Part = ReturnType<Parameters<Ports["loadCheckpointParts"]>[1]>[number];

function noting(part: Part, rooms: number[]): Part {
  rooms.push(part.into.length);
  return part;
}

/** A checkpoint on disk, in as many files for each section. */
async function checkpointOf(held: Ranks, cut: RankCut, files: number): Promise<string> {
  const { sections, holders } = await published(held);
  const collected = await collectShards(puller(), { ...id, sections, holders }, { cut, signal });
  const store = await ports.checkpointStore({ root: join(directory.path, "kept"), keep: 1, now: () => new Date(0) });
  const placed = cut.tensors.map(({ name, shape }) => ({ name, shape, dtype: "u8" as const }));
  const content = {
    ...{
      job,
      ...id,
      step: 3,
      term: 1,
      tensors: placeDensely(placed),
      modelConfig: {},
      groupsWatermark: 0,
      engineBuild: "b",
    },
    sections: sections.map(({ name, digest }) => ({
      name,
      digest,
      bytes: collected.sections[name] ?? new Uint8Array(),
    })),
    ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0 },
  };
  if (files === 1) return (await store.save(content, signal)).path;
  await store.saveShards(content, { indices: [1, 2], of: 2 }, signal);
  return (await store.seal(content, 2, signal)).path;
}
