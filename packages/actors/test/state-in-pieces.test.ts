/** A trainer whose state comes in pieces, as that of a model does which no array of JavaScript holds: digests, versions and checkpoints are those of the whole. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { randomOf, silentLogger } from "@muster/base";
import { digestOf } from "@muster/collectives/internal";
import { type PolicyEngine, roomFor, type StateViews } from "@muster/engine";
import { copyOf } from "@muster/engine/internal";
import { placeDensely } from "@muster/tensors";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Ports } from "../src/index.ts";
import { ownTable, WholeState } from "../src/internal.ts";
import { clock } from "./support/environment.ts";
import { ports } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

const pieceMax = 256 * 1024;
const sizes = { weights: 4 * 300_001, optimizer: 2 * 4 * 300_001 + 8 };
const tensors = placeDensely([{ name: "all", dtype: "f32", shape: [300_001] }]);
const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);
const { signal } = new AbortController();
const id = { lineage: 0, version: 3 };
const job = "pieces";
const names = ["weights", "optimizer"] as const;

let directory: TempDirectory;
const open: WholeState[] = [];
beforeEach(async () => {
  directory = await makeTempDirectory();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  await directory.remove();
});

function drawn(seed: number): StateViews {
  const random = randomOf(seed, 7);
  const state = { weights: roomFor(sizes.weights, pieceMax), optimizer: roomFor(sizes.optimizer, pieceMax) };
  for (const name of names)
    for (const piece of [state[name]].flat() as Uint8Array[])
      for (let i = 0; i < piece.length; i += 997) piece[i] = random.below(256);
  return state;
}

const wholeOf = (state: StateViews) => ({ weights: copyOf(state.weights), optimizer: copyOf(state.optimizer) });
const digestsIn = (state: StateViews): readonly string[] => names.map((name) => digestOf(copyOf(state[name])));

/** A trainer with this state, and what it was restored to since. */
async function trainer(member: string, state: StateViews, given: Partial<Ports> = {}) {
  let live = state;
  const engine: Partial<PolicyEngine> = {
    info: () =>
      ({
        kind: "pieces",
        weightsBytes: sizes.weights,
        optimizerBytes: sizes.optimizer,
        gradientElements: 4,
        tensors,
      }) as never,
    state: () => live,
    candidate: () => live,
    restore: async (from) => {
      const arriving = { weights: roomFor(sizes.weights, pieceMax), optimizer: roomFor(sizes.optimizer, pieceMax) };
      for (const name of names) {
        let at = 0;
        for (const piece of [arriving[name]].flat() as Uint8Array[]) {
          await from[name].copyTo(piece, at);
          at += piece.length;
        }
      }
      live = arriving;
    },
  };
  const own: Ports = { ...ports, pieceMax, ...given };
  const table = await ownTable(own, tensors, signal);
  const identity = { job, id: member, incarnation: `${member}-1` };
  const environment = { clock, logger: silentLogger };
  const config = smallConfig(directory.path);
  const opened = await WholeState.open({
    ...{ ports: own, engine, table, config, dataKey, identity, environment },
  } as never);
  open.push(opened);
  return { state: opened, live: () => digestsIn(live) };
}

type Trainer = Awaited<ReturnType<typeof trainer>>;

const published = (of: Trainer) => of.state.publish(id, ["serving", "training"]);

describe("a state in pieces", () => {
  it("is published and voted on by the digests of the whole, and is the same where it is pulled", async () => {
    const state = drawn(1);
    const one = await trainer("policy-0", state);
    const { weights, optimizer } = wholeOf(state);
    const wanted = [
      { name: "weights", bytes: sizes.weights, digest: digestOf(weights) },
      { name: "optimizer", bytes: sizes.optimizer, digest: digestOf(optimizer) },
    ];
    expect((await one.state.candidate(signal)).sections).toMatchObject(wanted);
    const { sections, addresses, training } = await published(one);
    expect(sections).toMatchObject(wanted);
    const other = await trainer("policy-1", drawn(2));
    const holders = [{ id: "policy-0", addresses: [...addresses], training: [...(training ?? [])] }];
    await other.state.pull({ ...id, sections: [...sections], holders }, signal);
    expect(other.live()).toEqual(digestsIn(state));
  });
});

describe("a checkpoint of a state in pieces", () => {
  async function checkpointOf(state: StateViews, lie = ""): Promise<string> {
    const store = await ports.checkpointStore({ root: join(directory.path, "kept"), keep: 1, now: () => new Date(0) });
    const bytes = wholeOf(state);
    const sections = names.map((name) => ({
      name,
      bytes: bytes[name],
      digest: (name === "optimizer" && lie) || digestOf(bytes[name]),
    }));
    const content = {
      ...{ job, ...id, step: 3, term: 1, tensors, modelConfig: {}, groupsWatermark: 0, engineBuild: "b", sections },
      ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0 },
    };
    return (await store.save(content, signal)).path;
  }

  it("is read in pieces, and never into an array for a whole section", async () => {
    const state = drawn(3);
    const path = await checkpointOf(state);
    const rooms: number[] = [];
    const other = await trainer("policy-1", drawn(4), {
      loadCheckpoint: () => Promise.reject(new Error("a whole section")),
      loadCheckpointParts: (from, choose, late) =>
        ports.loadCheckpointParts(
          from,
          (info) => {
            const parts = choose(info);
            rooms.push(...parts.map(({ into }) => into.length));
            return parts;
          },
          late,
        ),
    });
    await other.state.load({ path });
    expect(other.live()).toEqual(digestsIn(state));
    expect(rooms).toHaveLength(Math.ceil(sizes.weights / pieceMax) + Math.ceil(sizes.optimizer / pieceMax));
    expect(Math.max(...rooms)).toBe(pieceMax);
  });

  it("that is damaged, is another one than was meant, or has another digest than its manifest says is refused, and nothing of it is taken", async () => {
    const path = await checkpointOf(drawn(5));
    const other = await trainer("policy-1", drawn(6));
    const before = other.live();
    await expect(other.state.load({ path, manifestDigests: ["another"] })).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_REPLACED",
    });
    const file = join(path, "model.safetensors");
    const bytes = readFileSync(file);
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    await expect(other.state.load({ path })).rejects.toMatchObject({ code: "MUSTER_ERR_CHECKPOINT_CORRUPT" });
    const lying = await checkpointOf(drawn(7), "xxh3b:0123456789abcdef");
    await expect(other.state.load({ path: lying })).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_DIFFERS",
      params: { section: "optimizer", wanted: "xxh3b:0123456789abcdef" },
    });
    expect(other.live()).toEqual(before);
  });

  it("of another model is refused before anything of it is read", async () => {
    const state = drawn(8);
    const path = await checkpointOf({ ...state, optimizer: new Uint8Array(12) });
    const other = await trainer("policy-1", drawn(9));
    await expect(other.state.load({ path })).rejects.toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_OF_OTHER_MODEL",
      params: { section: "optimizer", bytes: 12, expectedBytes: sizes.optimizer },
    });
  });
});
