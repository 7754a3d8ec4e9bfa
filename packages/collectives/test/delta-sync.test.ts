import { randomOf } from "@muster/base";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DeltaOptions, mapVersion, openVersionStore, type VersionStore } from "../src/index.ts";
import { digestOf } from "../src/internal.ts";
import { job, key, never, relay, socketFolder } from "./support/fixtures.ts";

const elements = 4_000_001; // of bf16: seven whole blocks and a part of one
const lineage = 1;

let folder: ReturnType<typeof socketFolder>;
const stores: VersionStore[] = [];

async function open(member: string, delta: Partial<DeltaOptions> = { mode: "always", anchorEvery: 0 }) {
  const options = { key, job, member, socketDir: folder.path, tcpHost: "127.0.0.1", slotBytes: 2 * elements + 64 };
  const store = await openVersionStore({ ...options, delta });
  stores.push(store);
  return store;
}

const tcpOf = (store: VersionStore): string => store.addresses.find((address) => address.startsWith("tcp:"))!;

/** Version n: about one element of a hundred is one larger than in version n − 1. */
function weightsOf(version: number): Uint8Array {
  const random = randomOf(7, 0);
  const values = new Uint16Array(elements);
  for (let i = 0; i < elements; i++) values[i] = i * 40503;
  for (let n = 1; n <= version; n++)
    for (let i = random.below(200); i < elements; i += 1 + random.below(200)) values[i] = values[i]! + 1;
  return new Uint8Array(values.buffer);
}

async function pull(holders: readonly string[], version: number, weights: Uint8Array, keepIn: VersionStore) {
  const sections = [{ name: "weights", bytes: weights.length, digest: digestOf(weights) }];
  const id = { lineage, version };
  const base = { key, job, member: "reader", holders, id, sections, keepIn, deadlineMs: 20_000, signal: never };
  const { copyTo, release, ...result } = await mapVersion(base);
  const into = new Uint8Array(weights.length);
  await copyTo("weights", into, base);
  release();
  return { ...result, isSame: Buffer.compare(into, weights) === 0 };
}

beforeEach(() => {
  folder = socketFolder();
});
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  folder.remove();
});

describe("a version that the reader has the base of", () => {
  it("has the same bytes with deltas as without, and crosses in about a hundredth of them", async () => {
    const holder = await open("holder");
    const [plain, delta] = [await open("plain", { mode: "never" }), await open("delta")];
    for (const version of [0, 1, 2]) {
      const weights = weightsOf(version);
      await holder.publish({ lineage, version }, { weights });
      const whole = await pull([tcpOf(holder)], version, weights, plain);
      expect(whole).toMatchObject({ isSame: true, base: null, wireBytes: weights.length, via: "tcp" });
      const sparse = await pull([tcpOf(holder)], version, weights, delta);
      expect(sparse).toMatchObject({ isSame: true, base: version > 0 ? { lineage, version: version - 1 } : null });
      if (version > 0) expect(sparse.wireBytes / weights.length).toBeLessThan(0.012);
    }
  });

  it("crosses whole at every anchor", async () => {
    const holder = await open("holder");
    const reader = await open("reader", { mode: "always", anchorEvery: 2 });
    const bases = [];
    for (const version of [0, 1, 2, 3]) {
      const weights = weightsOf(version);
      await holder.publish({ lineage, version }, { weights });
      bases.push((await pull([tcpOf(holder)], version, weights, reader)).base?.version ?? null);
    }
    expect(bases).toEqual([null, 0, null, 2]);
  });

  it("crosses whole when the holder never had that base", async () => {
    const [holder, reader] = [await open("holder"), await open("reader")];
    await reader.publish({ lineage, version: 0 }, { weights: weightsOf(0).fill(7) });
    const weights = weightsOf(1);
    await holder.publish({ lineage, version: 1 }, { weights });
    expect(await pull([tcpOf(holder)], 1, weights, reader)).toMatchObject({ isSame: true, base: null });
  });

  it("goes on with deltas from the next holder when one breaks off in the middle, and the base stays whole", async () => {
    const [first, second, reader] = [await open("first"), await open("second"), await open("reader")];
    const [old, weights] = [weightsOf(0), weightsOf(1)];
    for (const holder of [first, second]) {
      await holder.publish({ lineage, version: 0 }, { weights: old });
      await holder.publish({ lineage, version: 1 }, { weights });
    }
    await pull([tcpOf(first)], 0, old, reader);
    let isCut = false;
    const cut = await relay(tcpOf(first), 40_000, (toReader, holder) => {
      isCut = true;
      toReader.destroy();
      holder.destroy();
    });
    const pulled = await pull([cut.address, tcpOf(second)], 1, weights, reader);
    expect(isCut).toBe(true);
    expect(pulled).toMatchObject({ isSame: true, from: tcpOf(second), base: { lineage, version: 0 } });
    expect(pulled.wireBytes / weights.length).toBeLessThan(0.012);
    expect(await pull([], 0, old, reader)).toMatchObject({ isSame: true, via: "memory" });
    cut.close();
  });

  it("is not asked for with options that make no sense", async () => {
    await expect(open("a", { keep: 65 })).rejects.toThrow("delta.keep is 65");
    await expect(open("b", { anchorEvery: -1 })).rejects.toThrow("delta.anchorEvery is -1");
  });
});
