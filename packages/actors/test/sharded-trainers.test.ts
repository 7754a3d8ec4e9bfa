/** Trainers whose processes each have a shard of the training state: what they publish, vote on, sum, take and load, and who can read it. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { randomOf, silentLogger } from "@muster/base";
import type { PolicyEngine, RankCut } from "@muster/engine";
import { readGradient, writeGradient } from "@muster/engine/internal";
import type { Holder, JobConfig, Section } from "@muster/protocol";
import { placeDensely } from "@muster/tensors";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openRankProgram, type Ports } from "../src/index.ts";
import {
  collectShards,
  cutInto,
  ownTable,
  RankTrainer,
  rankShards,
  regionsOf,
  ShardedState,
  sizeOf,
  ticketOf,
  WholeState,
} from "../src/internal.ts";
import { writeRankConfig } from "../src/node/rank-config.ts";
import { cutAlongColumns, cutOver } from "./support/cut-over.ts";
import { clock } from "./support/environment.ts";
import { ports } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);
const { signal } = new AbortController();
const id = { lineage: 0, version: 3 };
const job = "shards";

let directory: TempDirectory;
let config: JobConfig;
const open: { close(): Promise<void> }[] = [];
beforeEach(async () => {
  directory = await makeTempDirectory();
  config = smallConfig(directory.path);
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  await directory.remove();
});

const wholeBytes = 160 + 96 + 20;

function drawn(seed: number): Uint8Array<ArrayBuffer> {
  const random = randomOf(seed, 3);
  return Uint8Array.from({ length: wholeBytes }, () => random.below(256));
}

/** Something to wait for. */
function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open: () => open() };
}

/** One process of a trainer, with its shard and nothing else. */
class Rank {
  readonly training: RankTrainer;
  live: { weights: Uint8Array; optimizer: Uint8Array };

  constructor(given: { replica: string; rank: number; cut: RankCut; weights: Uint8Array; ports: Ports }) {
    const { replica, rank, cut, weights } = given;
    const options = { ports: given.ports, clock, logger: silentLogger, replica, rank, cut, job, dataKey, config };
    this.training = new RankTrainer(options);
    const own = new Uint8Array(this.training.bytes);
    cutInto(regionsOf(null, cut, rank), weights, own);
    this.live = { weights: own, optimizer: new Uint8Array(8 * (rank + 1)).fill(rank + 1) };
    this.training.attach({
      optimizerBytes: this.live.optimizer.length,
      gradientElements: 4 + rank,
      state: () => this.live,
      candidate: () => this.live,
      restore: async (from) => {
        const taken = { weights: new Uint8Array(own.length), optimizer: new Uint8Array(8 * (rank + 1)) };
        await from.weights.copyTo(taken.weights);
        await from.optimizer.copyTo(taken.optimizer);
        this.live = taken;
      },
    });
  }
}

interface Trainer {
  readonly state: ShardedState;
  readonly ranks: readonly Rank[];
  /** Ranks that hear nothing now. */
  readonly isDeaf: Set<number>;
}

/** A trainer of several processes, all in this one, of which only rank 0 hears that something was given up; `portsOf` gives each rank its own. */
async function trainer(
  replica: string,
  cut: RankCut,
  weights: Uint8Array,
  portsOf: (rank: number) => Ports = () => ports,
  given: (answers: string[]) => string[] = (answers) => answers,
): Promise<Trainer> {
  const ranks = Array.from(
    { length: sizeOf(cut) },
    (_, rank) => new Rank({ replica, rank, cut, weights, ports: portsOf(rank) }),
  );
  open.push(...ranks.map(({ training }) => training));
  const isDeaf = new Set<number>();
  const perform = (ticket: string, aborted: AbortSignal) => (each: Rank, rank: number) =>
    isDeaf.has(rank) ? new Promise<never>(() => {}) : each.training.perform(ticket, rank === 0 ? aborted : signal);
  const performAll: PolicyEngine["performAll"] = async (ticket, aborted) =>
    given(await Promise.all(ranks.map(perform(ticket, aborted))));
  const engine = { info: () => ({ kind: "ranks", weightsBytes: wholeBytes, gradientElements: 4 }), performAll };
  const [first] = ranks;
  if (!first) throw new Error("a trainer has ranks");
  const table = await ownTable(ports, [], signal);
  const identity = { job, id: replica, incarnation: `${replica}-1` };
  const environment = { clock, logger: silentLogger };
  const tools = { ports, engine, table, config, dataKey, identity, environment } as never;
  return { ranks, isDeaf, state: await ShardedState.open(tools, first.training, cut) };
}

/** Publishes everything. @returns What the order of a reader says of it. */
async function published(
  { state }: Pick<Trainer, "state">,
  holder: string,
): Promise<{ sections: Section[]; holders: Holder[] }> {
  const { sections, addresses, training, ranks } = await state.publish(id, ["serving", "training"]);
  return { sections: [...sections], holders: [{ id: holder, addresses, training, ranks }] };
}

const puller = () => ({
  ...{
    pullShards: ports.pullShards,
    pull: ports.pull,
    pieceMax: ports.pieceMax,
    clock,
    job,
    member: "reader",
    dataKey,
    config,
  },
});

/** What is collected, each section as one array. */
async function collected(
  wanted: Parameters<typeof collectShards>[1],
  cut: RankCut,
): Promise<Readonly<Record<string, Uint8Array>>> {
  const { sections } = await collectShards(puller(), wanted, { cut, signal });
  const whole = Object.entries(sections).map(async ([name, { length, copyTo }]) => {
    const into = new Uint8Array(length);
    await copyTo(into);
    return [name, into] as const;
  });
  return Object.fromEntries(await Promise.all(whole));
}

describe("a version of shards", () => {
  it.each([
    [cutOver(2), cutOver(3)],
    [cutOver(2, 2), cutOver(2)],
    [cutOver(3), cutOver(1, 2)],
    [{ ...cutOver(1), fsdp: 4 }, cutOver(2)],
    [{ ...cutOver(2), fsdp: 2, fsdpCut: "flat" as const }, cutOver(3)],
    [{ ...cutOver(1), fsdp: 2, dp: 2 }, cutAlongColumns(2)],
  ])("comes to samplers of other ranks as their parts, and to one process whole (%#)", async (from, to) => {
    const weights = drawn(18);
    const { sections, holders } = await published(await trainer("policy-0", from, weights), "policy-0");
    for (let rank = 0; rank < to.tp * to.pp; rank++) {
      const given = { ports, clock, logger: silentLogger, replica: "rollout-0", job, dataKey, config };
      const shards = rankShards({ ...given, rank, cut: to, trainers: from });
      const into = new Uint8Array(shards.bytes);
      await shards.pull(ticketOf({ ...id, order: "one", sections, holders }), into, signal);
      const expected = new Uint8Array(shards.bytes);
      cutInto(regionsOf(null, to, rank), weights, expected);
      expect(into).toEqual(expected);
    }
    const bytes = await collected({ ...id, sections, holders }, from);
    expect(bytes.weights).toEqual(weights);
    const shards = Array.from({ length: sizeOf(from) }, (_, rank) => new Array(8 * (rank + 1)).fill(rank + 1));
    expect([...(bytes.optimizer ?? [])]).toEqual(shards.flat());
  });

  it("of which each shard has copies is read from any of them, and refused when they differ", async () => {
    const weights = drawn(18);
    const cut: RankCut = { ...cutOver(1), fsdp: 2, dp: 2 };
    const { ranks, state } = await trainer("policy-0", cut, weights);
    const { sections, holders } = await published({ state }, "policy-0");
    await ranks[1]?.training.close();
    expect((await collected({ ...id, sections: sections.slice(0, 1), holders }, cut)).weights).toEqual(weights);
    const differs = await trainer("policy-1", cut, weights);
    const shard = differs.ranks[3]?.live.weights;
    if (shard) shard[0] = (shard[0] ?? 0) ^ 1;
    await expect(differs.state.candidate(signal)).rejects.toThrow(
      /rank 3 has digest \S+, and rank 1, whose copy it is, has/,
    );
  });

  it("is collected by a way that is planned once, and not for each version", async () => {
    const { sections, holders } = await published(await trainer("policy-0", cutOver(2), drawn(18)), "policy-0");
    const { tp, pp, tensors } = cutOver(2);
    let plans = 0;
    const cut: RankCut = {
      ...{ tp, pp },
      get tensors() {
        plans += 1;
        return tensors;
      },
    };
    for (let version = 0; version < 3; version++)
      await collectShards(puller(), { ...id, sections, holders }, { cut, signal });
    expect(plans).toBe(1);
  });

  it("is voted on by the digests of all its shards", async () => {
    const [one, same] = [
      await trainer("policy-0", cutOver(2), drawn(1)),
      await trainer("policy-1", cutOver(2), drawn(1)),
    ];
    const other = drawn(1);
    other[150] = (other[150] ?? 0) ^ 1; // in the shard of rank 1
    const differs = await trainer("policy-2", cutOver(2), other);
    const digests = async ({ state }: Trainer) =>
      (await state.candidate(signal)).sections.map(({ name, bytes, digest }) => ({ name, bytes, digest }));
    const voted = await digests(one);
    expect(voted.map(({ name, bytes }) => [name, bytes])).toEqual([
      ["weights", wholeBytes],
      ["optimizer", 24],
    ]);
    expect(await digests(same)).toEqual(voted);
    const odd = await digests(differs);
    expect(odd[0]?.digest).not.toBe(voted[0]?.digest);
    expect(odd[1]).toEqual(voted[1]);
  });

  it("is refused when the list of its shards is not the one that was voted on, or of another trainer than those of this job", async () => {
    const { sections, holders } = await published(await trainer("policy-0", cutOver(2), drawn(1)), "policy-0");
    const reading = (forged: Section[]) =>
      collectShards(puller(), { ...id, sections: forged, holders }, { cut: cutOver(2), signal });
    const other = sections.map((section) => ({ ...section, digest: "shards:xxh3b:0123456789abcdef" }));
    await expect(reading(other)).rejects.toMatchObject({ code: "MUSTER_ERR_PULL_DIGEST_MISMATCH" });
    const larger = sections.map((section) => ({ ...section, bytes: section.bytes + 1 }));
    await expect(reading(larger)).rejects.toMatchObject({
      code: "MUSTER_ERR_SHARDS_DIFFER",
      message: expect.stringMatching(
        /section weights .* their list is of 2 with 276 bytes .*, and 2 with 277 were ordered/,
      ),
    });
    const whole = sections.map((section) => ({ ...section, digest: section.digest.replace("shards:", "") }));
    await expect(reading(whole)).rejects.toThrow(/section weights .* they are not named/);
    const none = sections.map(({ shards: _, ...section }) => section);
    await expect(reading(none)).rejects.toThrow(/it has 0 shards, and trainers of this job 2 processes/);
  });
});

describe("a trainer that joins", () => {
  it("takes what each of its ranks is to have from the same rank of another, and goes on at a third when that one is gone", async () => {
    const weights = drawn(5);
    const [gone, held] = [
      await trainer("policy-0", cutOver(2), weights),
      await trainer("policy-1", cutOver(2), weights),
    ];
    const first = await published(gone, "policy-0");
    const second = await published(held, "policy-1");
    await gone.ranks[1]?.training.close();
    const joiner = await trainer("policy-2", cutOver(2), drawn(6));
    const holders = [...first.holders, ...second.holders];
    await joiner.state.pull({ ...id, sections: first.sections, holders }, signal);
    expect(joiner.ranks.map(({ live }) => live)).toEqual(held.ranks.map(({ live }) => live));
  });

  it("takes what was ordered last, also when a rank gets its shard of an order that was given up in between", async () => {
    const held = await trainer("policy-0", cutOver(2), drawn(5));
    const { sections, holders } = await published(held, "policy-0");
    const late = gate();
    const lateIsOver = gate();
    const pulls = [0, 0];
    // Rank 1 gets its first shard once it has all of the second order, and rank 0 the latter after that.
    const mapOf =
      (rank: number): Ports["map"] =>
      async (options) => {
        const turn = pulls[rank] ?? 0;
        pulls[rank] = turn + 1;
        if (rank === 1 && turn === 0) await late.passed;
        if (rank === 0 && turn >= 2) await lateIsOver.passed;
        const pulled = await ports.map(options);
        if (rank === 1 && turn === 2) late.open();
        return pulled;
      };
    let tickets = 0;
    const given = (answers: string[]): string[] => {
      tickets += 1;
      if (tickets === 2) lateIsOver.open();
      return answers;
    };
    const joiner = await trainer("policy-1", cutOver(2), drawn(6), (rank) => ({ ...ports, map: mapOf(rank) }), given);
    const givenUp = new AbortController();
    const first = joiner.state.pull({ ...id, sections, holders }, givenUp.signal);
    await vi.waitFor(() => expect(pulls).toEqual([2, 1]));
    givenUp.abort(new Error("given up"));
    await expect(first).rejects.toThrow("given up");
    await joiner.state.pull({ ...id, sections, holders }, signal);
    expect(joiner.ranks.map(({ live }) => live)).toEqual(held.ranks.map(({ live }) => live));
  });

  it("does not ask without end a process that does not hear: the third pull in a row that it says nothing of ends the replica", async () => {
    const held = await trainer("policy-0", cutOver(2), drawn(5));
    const { sections, holders } = await published(held, "policy-0");
    config = { ...config, timing: { ...config.timing, pullMs: 200 } };
    let isDeaf = true;
    const deaf: Ports = { ...ports, map: (options) => (isDeaf ? new Promise(() => {}) : ports.map(options)) };
    const joiner = await trainer("policy-1", cutOver(2), drawn(6), (rank) => (rank === 1 ? deaf : ports));
    const pull = () => joiner.state.pull({ ...id, sections, holders }, signal);
    // A process that hears gives its shard up and says so, however long what it waits for takes.
    for (let i = 0; i < 4; i++)
      await expect(pull()).rejects.toThrow(/^rank 1: taking the shard of version 3 did not end within 180 ms/);
    joiner.isDeaf.add(1);
    const late = {
      code: "MUSTER_ERR_DEADLINE_EXPIRED",
      message: expect.stringContaining("2 processes of this trainer"),
    };
    for (let i = 0; i < 2; i++) await expect(pull()).rejects.toMatchObject(late);
    await expect(pull()).rejects.toMatchObject({ code: "MUSTER_ERR_WORK_STUCK" });
    isDeaf = false;
    joiner.isDeaf.clear();
    await pull();
    expect(joiner.ranks.map(({ live }) => live)).toEqual(held.ranks.map(({ live }) => live));
  });

  it("keeps what it has when one of its ranks can not get its shard", async () => {
    const held = await trainer("policy-0", cutOver(2), drawn(5));
    const { sections, holders } = await published(held, "policy-0");
    await held.ranks[1]?.training.close();
    const joiner = await trainer("policy-1", cutOver(2), drawn(6));
    const before = joiner.ranks.map(({ live }) => live);
    await expect(joiner.state.pull({ ...id, sections, holders }, signal)).rejects.toThrow(/^rank 1: /);
    expect(joiner.ranks.map(({ live }) => live)).toEqual(before);
  });
});

describe("what was given up before its turn", () => {
  it("is asked of no rank: nobody would hear of its failure, which then ends the process", async () => {
    let tickets = 0;
    const given = (answers: string[]): string[] => {
      tickets += 1;
      return answers;
    };
    const { state } = await trainer("policy-0", cutOver(2), drawn(1), () => ports, given);
    const asked = tickets;
    await expect(state.candidate(AbortSignal.abort(new Error("given up")))).rejects.toThrow("given up");
    expect(tickets).toBe(asked);
  });
});

describe("gradients of ranks", () => {
  const meeting = {
    epoch: 4,
    members: ["policy-0", "policy-1"].map((name) => ({ id: name, incarnation: `${name}-1` })),
  };

  it("are summed with those of the same rank of the other trainers", async () => {
    const both = [await trainer("policy-0", cutOver(2), drawn(1)), await trainer("policy-1", cutOver(2), drawn(1))];
    const meshes = await Promise.all(both.map(({ state }) => state.openMesh(meeting, signal)));
    const shards = config.batch.microShards;
    for (let shard = 0; shard < shards; shard++)
      for (const [rank, { training }] of (both[shard % 2]?.ranks ?? []).entries())
        writeGradient(training.gradient(shard, 4), new Float32Array(4 + rank).fill(10 ** rank * (shard + 1)));
    const indices = Array.from({ length: shards }, (_, shard) => shard);
    await Promise.all(
      meshes.map((mesh, place) =>
        mesh.reduce({ op: 1, written: indices.filter((shard) => shard % 2 === place), deadlineMs: 5_000, signal }),
      ),
    );
    const total = (shards * (shards + 1)) / 2;
    for (const { ranks } of both)
      for (const [rank, { training }] of ranks.entries()) {
        const sum = new Float32Array(4 + rank);
        readGradient(training.sum(), sum);
        expect([...sum]).toEqual(new Array(4 + rank).fill(10 ** rank * total));
      }
    for (const mesh of meshes) mesh.close();
  });

  it("have memory that stays until the next epoch: an engine may still write when its epoch is given up", async () => {
    const { state, ranks } = await trainer("policy-0", cutOver(2), drawn(1));
    const alone = (epoch: number) => ({ epoch, members: meeting.members.slice(0, 1) });
    const mesh = await state.openMesh(alone(4), signal);
    const [window] = ranks[1]?.training.gradient(0, 4).windows() ?? [];
    mesh.abort("given up");
    expect(window?.values.length).toBe(5);
    await expect(mesh.reduce({ op: 1, written: [], deadlineMs: 5_000, signal })).rejects.toThrow();
    const next = await state.openMesh(alone(5), signal);
    expect(window?.values.length).toBe(0);
    expect(() => ranks[1]?.training.gradient(0, 4), "which was computed for an epoch that is over").toThrow(/epoch 4/);
    expect(ranks[1]?.training.gradient(0, 5).elements).toBe(5);
    next.close();
  });

  it("are not asked for without end of a process that does not hear: the third in a row that it says nothing of ends the replica", async () => {
    config = { ...config, timing: { ...config.timing, meshMs: 200 } };
    let isDeaf = true;
    const deaf: Ports = {
      ...ports,
      gradientMesh: (options) => (isDeaf ? new Promise(() => {}) : ports.gradientMesh(options)),
    };
    const { state } = await trainer("policy-0", cutOver(2), drawn(1), (rank) => (rank === 1 ? deaf : ports));
    const meet = (epoch: number) => state.openMesh({ epoch, members: meeting.members.slice(0, 1) }, signal);
    const late = {
      code: "MUSTER_ERR_DEADLINE_EXPIRED",
      message: expect.stringContaining("2 processes of this trainer"),
    };
    for (const epoch of [4, 5]) await expect(meet(epoch)).rejects.toMatchObject(late);
    isDeaf = false;
    (await meet(6)).close();
    isDeaf = true;
    for (const epoch of [7, 8]) await expect(meet(epoch)).rejects.toMatchObject(late);
    await expect(meet(9)).rejects.toMatchObject({ code: "MUSTER_ERR_WORK_STUCK" });
  });

  it("end when the other trainer goes", async () => {
    const both = [await trainer("policy-0", cutOver(2), drawn(1)), await trainer("policy-1", cutOver(2), drawn(1))];
    const [mesh] = await Promise.all(both.map(({ state }) => state.openMesh(meeting, signal)));
    const reducing = mesh?.reduce({ op: 1, written: [0, 1, 2, 3], deadlineMs: 2_000, signal });
    const lost = expect(reducing).rejects.toMatchObject({
      code: "MUSTER_ERR_COLLECTIVE_PEER_LOST",
      message: expect.stringMatching(/mesh epoch 4 of rank ([01]) lost ranks \[1\].* \(1 is policy-1(\.1)?\)/),
    });
    await Promise.all((both[1]?.ranks ?? []).map(({ training }) => training.close()));
    await lost;
    mesh?.close();
  });
});

describe("a checkpoint", () => {
  const tensors = placeDensely([
    { name: "rows", dtype: "f32", shape: [10, 4] },
    { name: "columns", dtype: "bf16", shape: [6, 8] },
    { name: "norm", dtype: "f32", shape: [5] },
  ]);

  const more: RankCut["tensors"][number] = {
    name: "more",
    shape: [1],
    elementBytes: 4,
    partition: null,
    layer: "last",
  };

  /** A checkpoint on disk, of trainers of this layout, in as many files for each section. */
  async function checkpointOf(written: Trainer, cut: RankCut, files: number): Promise<string> {
    const { sections, holders } = await published(written, "policy-0");
    const bytes = await collected({ ...id, sections, holders }, cut);
    const root = join(directory.path, "checkpoints");
    const store = await ports.checkpointStore({ root, keep: 1, now: () => new Date(0) });
    const content = {
      ...{ job, ...id, step: 3, term: 1, tensors, modelConfig: {}, groupsWatermark: 0, engineBuild: "b" },
      sections: sections.map(({ name, digest }) => ({ name, digest, bytes: bytes[name] ?? new Uint8Array() })),
      ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0 },
    };
    if (files === 1) return (await store.save(content, signal)).path;
    await store.saveShards(content, { indices: Array.from({ length: files }, (_, i) => i + 1), of: files }, signal);
    return (await store.seal(content, files, signal)).path;
  }

  it.each([1, 2, 3])(
    "in %i files gives each rank its shard back, and none reads or has room for more",
    async (files) => {
      const written = await trainer("policy-0", cutOver(2, 2), drawn(8));
      const path = await checkpointOf(written, cutOver(2, 2), files);
      const read: number[] = [];
      const other = await trainer("policy-1", cutOver(2, 2), drawn(9), (rank) => ({
        ...ports,
        loadCheckpoint: () => Promise.reject(new Error("the whole")),
        loadCheckpointParts: async (...asked) => {
          const parts = await ports.loadCheckpointParts(...asked);
          read[rank] = parts.bytes;
          return parts;
        },
      }));
      await other.state.load({ path }, signal);
      expect(other.ranks.map(({ live }) => live)).toEqual(written.ranks.map(({ live }) => live));
      const { manifestDigest } = await ports.verifyCheckpoint(path, signal);
      await other.state.load({ path, manifestDigests: [manifestDigest] }, signal);
      expect(read).toEqual(other.ranks.map(({ live }) => live.weights.length + live.optimizer.length));
    },
  );

  it("that is damaged is told from one of another layout, and nothing of it is taken", async () => {
    const path = await checkpointOf(await trainer("policy-0", cutOver(2), drawn(8)), cutOver(2), 1);
    const file = join(path, "model.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    const other = await trainer("policy-1", cutOver(2), drawn(9));
    const before = other.ranks.map(({ live }) => live);
    await expect(other.state.load({ path }, signal)).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_CORRUPT",
      params: { manifestDigest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    });
    expect(other.ranks.map(({ live }) => live)).toEqual(before);
  });

  it("of another layout is refused, and nothing of it is taken", async () => {
    const path = await checkpointOf(await trainer("policy-0", cutOver(2), drawn(8)), cutOver(2), 2);
    const other = await trainer("policy-1", cutOver(1, 2), drawn(9));
    const before = other.ranks.map(({ live }) => live);
    await expect(other.state.load({ path }, signal)).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS",
      message: expect.stringContaining("set processes.policy as it was"),
    });
    const three = await trainer("policy-2", cutOver(3), drawn(9));
    await expect(three.state.load({ path }, signal)).rejects.toThrow(
      /its optimizer has 24 bytes, and that of this job 48/,
    );
    const larger = await trainer("policy-3", { ...cutOver(2), tensors: [...cutOver(2).tensors, more] }, drawn(9));
    await expect(larger.state.load({ path }, signal)).rejects.toThrow(
      /its weights has 276 bytes, and that of this job 280/,
    );
    const replaced = { path, manifestDigests: ["another"] };
    await expect(other.state.load(replaced, signal)).rejects.toMatchObject({ code: "MUSTER_ERR_CHECKPOINT_REPLACED" });
    expect(other.ranks.map(({ live }) => live)).toEqual(before);
  });
});

describe("a checkpoint of shards", () => {
  it("is refused by a trainer of one process, which would take its optimizer for one of its own", async () => {
    const { sections } = await published(await trainer("policy-0", cutOver(2), drawn(8)), "policy-0");
    const kept = sections.map(({ name, digest, bytes }) => ({ name, digest, bytes: new Uint8Array(bytes) }));
    const loadCheckpoint = async () => ({ info: { name: "step-3", manifestDigest: "m", sections }, sections: kept });
    let restored = 0;
    const engine = {
      info: () => ({ weightsBytes: wholeBytes, optimizerBytes: 24 }),
      restore: async () => {
        restored += 1;
      },
    };
    const identity = { job, id: "policy-1", incarnation: "policy-1-1" };
    const environment = { clock, logger: silentLogger };
    const table = await ownTable(ports, [], signal);
    const alone = { ...ports, loadCheckpoint };
    const tools = { ports: alone, engine, table, config, dataKey, identity, environment } as never;
    const state = await WholeState.open(tools);
    open.push(state);
    await expect(state.load({ path: "/checkpoints/step-3" })).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_OF_OTHER_SHARDS",
      message: expect.stringMatching(/trainers of 1 processes .*its section weights is in shards; set processes/),
    });
    expect(restored).toBe(0);
  });
});

describe("a process that is not rank 0", () => {
  it("ends the program of its engine as the object that it is", async () => {
    class Program {
      readonly ended = new Promise<void>(() => {});
      readonly #ends = { closed: 0 };
      async close(): Promise<void> {
        this.#ends.closed += 1;
      }
      get closed(): number {
        return this.#ends.closed;
      }
    }
    const own = new Program();
    writeRankConfig(directory.path, { config, dataKey });
    const engines = {
      rankCutOf: () => cutOver(2),
      of: () => ({ build: () => "b" }),
      openRank: async () => own,
    } as never;
    const rank = { replica: "policy-0", rank: 1 } as never;
    const given = {
      job,
      directory: directory.path,
      engines,
      role: "policy",
      rank,
      clock,
      logger: silentLogger,
    } as const;
    const program = await openRankProgram(given);
    await program.close();
    expect(own.closed).toBe(1);
  });
});

describe("what ranks are told and answer", () => {
  it.each([
    ["no text of JSON", "hello"],
    ["an order that nobody gives", JSON.stringify({ do: "format" })],
    ["too long", "x".repeat(2 ** 21 + 1)],
  ])("is refused where it is %s", async (_, ticket) => {
    const { ranks } = await trainer("policy-0", cutOver(2), drawn(1));
    const answer = JSON.parse((await ranks[0]?.training.perform(ticket, signal)) ?? "");
    expect(answer.failed.code).toBe("MUSTER_ERR_RANK_TICKET");
  });

  it.each<[string, (answers: string[], before: string[]) => string[], RegExp]>([
    ["of another rank", ([one = "", two = ""]) => [two, one], /what rank 0 answered is refused \(it is of rank 1\)/],
    ["of an earlier ticket", ([one = ""], [, two = ""]) => [one, two], /rank 1 .*it is the answer to another ticket/],
    [
      "of another build of the engine",
      ([one = "", two = ""]) => [one, two.replace(ports.engineBuild, "another")],
      /rank 1 .*it has engine build another, and rank 0 has /,
    ],
  ])("is refused when an answer is %s: its shard would be taken for one of this order", async (_, mangle, reason) => {
    let before: string[] | null = null;
    const given = (answers: string[]): string[] => {
      const answered = before ? mangle(answers, before) : answers;
      before = answers;
      return answered;
    };
    const { state } = await trainer("policy-0", cutOver(2), drawn(1), () => ports, given);
    await expect(state.publish(id, ["serving", "training"])).rejects.toMatchObject({
      code: "MUSTER_ERR_RANK_ANSWER",
      message: expect.stringMatching(reason),
    });
  });

  it("is an error that names the rank when the engine gives another shard than it attached", async () => {
    const { state, ranks } = await trainer("policy-0", cutOver(2), drawn(1));
    const [, second] = ranks;
    if (second) second.live = { ...second.live, weights: new Uint8Array(3) };
    await expect(state.candidate(signal)).rejects.toMatchObject({
      code: "MUSTER_ERR_RANK_STATE",
      params: { rank: 1, name: "weights", bytes: 3 },
    });
  });
});
