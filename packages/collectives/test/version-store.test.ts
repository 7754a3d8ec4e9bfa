import { hasCode } from "@muster/base";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type MappedVersion,
  mapVersion,
  openVersionStore,
  pullVersion,
  type SectionInfo,
  type VersionStore,
} from "../src/index.ts";
import { digestOf } from "../src/internal.ts";
import { bytesOf, job, key, openFds, pullOf, relay, socketFolder, until } from "./support/fixtures.ts";

const MiB = 1024 * 1024;
const id = { lineage: 3, version: 41 };
const patience = () => ({ deadlineMs: 10_000, signal: new AbortController().signal });
const failure = (code: string) => expect.objectContaining({ code });

let folder: ReturnType<typeof socketFolder>;
const stores: VersionStore[] = [];

async function open(options: { member?: string; slotBytes?: number } = {}): Promise<VersionStore> {
  const { member = "holder", slotBytes = 16 * MiB } = options;
  const store = await openVersionStore({ key, job, member, socketDir: folder.path, tcpHost: "127.0.0.1", slotBytes });
  stores.push(store);
  return store;
}

const tcpOf = (store: VersionStore): string => store.addresses.find((address) => address.startsWith("tcp:"))!;

beforeEach(() => {
  folder = socketFolder();
});
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  folder.remove();
});

describe.each([
  ["memory", 0],
  ["tcp", 1],
] as const)("pulling by %s", (via, place) => {
  it("gives the bytes that were published, and says how it got them", async () => {
    const store = await open();
    const weights = bytesOf(5 * MiB + 3, 1);
    const optimizer = bytesOf(777, 2);
    const sections = await store.publish(id, { weights, optimizer });
    expect(sections).toEqual([
      { name: "weights", bytes: weights.length, digest: digestOf(weights) },
      { name: "optimizer", bytes: 777, digest: digestOf(optimizer) },
    ]);
    const options = pullOf(id, sections, [store.addresses[place]!]);
    const pulled = await pullVersion(options);
    expect(pulled).toMatchObject({ bytes: weights.length + 777, via, from: store.addresses[place] });
    expect(Buffer.compare(options.into.weights!, weights)).toBe(0);
    expect(Buffer.compare(options.into.optimizer!, optimizer)).toBe(0);
  });

  it("gives one section alone, in any order, and an empty one", async () => {
    const store = await open();
    const sections = await store.publish(id, {
      weights: bytesOf(MiB, 1),
      optimizer: bytesOf(99, 2),
      none: bytesOf(0, 0),
    });
    const wanted: SectionInfo[] = [sections[2]!, sections[1]!];
    const options = pullOf(id, wanted, [store.addresses[place]!]);
    expect((await pullVersion(options)).bytes).toBe(99);
    expect(digestOf(options.into.optimizer!)).toBe(sections[1]!.digest);
  });

  it("gives a version of a thousand sections, all or in another order, and refuses one of more than 1024", async () => {
    const store = await open();
    const layers = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`layer-${i}`, bytesOf(1 + (i % 9) * 700, i)]));
    const published = layers(1000);
    const sections = await store.publish(id, published);
    for (const wanted of [sections, sections.toReversed().slice(3)]) {
      const options = pullOf(id, wanted, [store.addresses[place]!]);
      await pullVersion(options);
      for (const { name, digest } of wanted) expect(digestOf(options.into[name]!)).toBe(digest);
    }
    const another = { lineage: 3, version: 42 };
    await expect(store.publish(another, layers(1025))).rejects.toThrow("more than 1024 sections");
  });

  it("takes section names in any writing, but none with NUL, which joins them on their way", async () => {
    const store = await open();
    const named = { größe: bytesOf(5, 1), "層/0": bytesOf(0, 2), "a b": bytesOf(77, 3) };
    const sections = await store.publish(id, named);
    expect(sections).toEqual(
      Object.entries(named).map(([name, bytes]) => ({ name, bytes: bytes.byteLength, digest: digestOf(bytes) })),
    );
    const options = pullOf(id, sections.toReversed(), [store.addresses[place]!]);
    await pullVersion(options);
    expect(options.into).toEqual(named);
    const wrong = { "a\0b": bytesOf(1, 1) };
    await expect(store.publish({ lineage: 3, version: 42 }, wrong)).rejects.toThrow("give a name without NUL");
    const sly = sections.map((section) => ({ ...section, name: `${section.name}\0` }));
    const into = Object.fromEntries(sly.map(({ name, bytes }) => [name, new Uint8Array(bytes)]));
    await expect(pullVersion({ ...options, sections: sly, into })).rejects.toThrow("give a name without NUL");
  });

  it("refuses another key and another job, a digest that differs and a version that is gone, and writes nothing", async () => {
    const store = await open();
    const sections = await store.publish(id, { weights: bytesOf(MiB, 1) });
    const good = pullOf(id, sections, [store.addresses[place]!]);
    const wrong = [{ ...sections[0]!, digest: digestOf(new Uint8Array(1)) }];
    await expect(pullVersion({ ...good, key: new Uint8Array(32) })).rejects.toEqual(failure("MUSTER_ERR_PULL_REFUSED"));
    await expect(pullVersion({ ...good, job: "other" })).rejects.toEqual(failure("MUSTER_ERR_PULL_REFUSED"));
    await expect(pullVersion({ ...good, sections: wrong })).rejects.toEqual(failure("MUSTER_ERR_PULL_DIGEST_MISMATCH"));
    const gone = { ...good, id: { lineage: 3, version: 42 } };
    await expect(pullVersion(gone)).rejects.toEqual(failure("MUSTER_ERR_VERSION_GONE"));
    expect(good.into.weights!.every((byte) => byte === 0)).toBe(true);
  });

  it("passes over holders that are not there", async () => {
    const store = await open();
    const sections = await store.publish(id, { weights: bytesOf(MiB, 1) });
    const holders = [`unix:${folder.path}/gone.sock`, "tcp:127.0.0.1:1", store.addresses[place]!];
    expect((await pullVersion(pullOf(id, sections, holders))).from).toBe(holders[2]);
  });
});

describe("a version store", () => {
  it("keeps as many versions as it has slots, the newest ones", async () => {
    const store = await open();
    for (const version of [1, 2, 3]) await store.publish({ lineage: 1, version }, { weights: bytesOf(100, version) });
    expect(store.versions()).toEqual([
      { lineage: 1, version: 2 },
      { lineage: 1, version: 3 },
    ]);
    expect(store.holds({ lineage: 1, version: 1 })).toBe(false);
    expect(store.holds({ lineage: 1, version: 3 })).toBe(true);
  });

  it("accepts the same version twice, refuses other bytes for it, and bytes over the size of a slot", async () => {
    const store = await open({ slotBytes: MiB });
    const sections = await store.publish(id, { weights: bytesOf(100, 1) });
    expect(await store.publish(id, { weights: bytesOf(100, 1) })).toEqual(sections);
    const other = store.publish(id, { weights: bytesOf(100, 2) });
    await expect(other).rejects.toEqual(failure("MUSTER_ERR_VERSION_CONFLICT"));
    const big = store.publish({ lineage: 3, version: 42 }, { weights: bytesOf(MiB + 1, 1) });
    await expect(big).rejects.toEqual(failure("MUSTER_ERR_VERSION_TOO_LARGE"));
    expect(store.holds(id)).toBe(true);
  });

  it("can be closed twice, and then neither publishes nor serves", async () => {
    const store = await open();
    const sections = await store.publish(id, { weights: bytesOf(100, 1) });
    await Promise.all([store.close(), store.close()]);
    await expect(store.publish(id, {})).rejects.toEqual(failure("MUSTER_ERR_VERSION_STORE_CLOSED"));
    expect(store.versions()).toEqual([]);
    await expect(pullVersion(pullOf(id, sections, store.addresses))).rejects.toEqual(
      failure("MUSTER_ERR_PULL_UNREACHABLE"),
    );
  });

  it("says what is wrong with an option, by its name", async () => {
    const base = { key, job, member: "m", socketDir: folder.path, tcpHost: null, slotBytes: 100 };
    await expect(openVersionStore({ ...base, key: new Uint8Array(3) })).rejects.toThrow("key is 3 bytes long");
    await expect(openVersionStore({ ...base, slots: 1 })).rejects.toThrow("slots is 1; give a whole number from 2");
    await expect(openVersionStore({ ...base, socketDir: `/tmp/${"x".repeat(100)}` })).rejects.toThrow(
      "the limit is 107; choose a shorter socket directory",
    );
    await expect(openVersionStore({ ...base, tcpHost: "localhost" })).rejects.toThrow("not a numeric IP address");
  });

  it("leaks no file descriptor over many pulls and stores", async () => {
    const rounds = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const store = await open();
        const sections = await store.publish(id, { weights: bytesOf(1000, i) });
        for (const address of store.addresses) await pullVersion(pullOf(id, sections, [address]));
        await store.close();
      }
    };
    await rounds(5);
    const before = openFds();
    await rounds(50);
    await until("the file descriptors of 50 stores to go", () => openFds() <= before + 2);
  });
});

describe("mapping a version", () => {
  const mapOf = (store: VersionStore, sections: readonly SectionInfo[], place: number, keepIn?: VersionStore) => {
    const { into: _, ...options } = pullOf(id, sections, [store.addresses[place]!]);
    return mapVersion({ ...options, ...(keepIn ? { keepIn } : {}) });
  };

  const contentOf = async (mapped: MappedVersion, section: string, bytes: number) => {
    const into = new Uint8Array(bytes);
    await mapped.copyTo(section, into, patience());
    return into;
  };

  it("keeps the bytes where they lie until they are released, by memory and by tcp", async () => {
    const store = await open();
    const published = { weights: bytesOf(3 * MiB + 1, 1), none: bytesOf(0, 0) };
    const sections = await store.publish(id, published);
    for (const [place, via] of ["memory", "tcp"].entries()) {
      const mapped = await mapOf(store, sections, place);
      expect(mapped).toMatchObject({ via, bytes: 3 * MiB + 1, from: store.addresses[place] });
      expect(Buffer.compare(await contentOf(mapped, "weights", 3 * MiB + 1), published.weights)).toBe(0);
      expect(await contentOf(mapped, "none", 0)).toHaveLength(0);
      mapped.release();
      mapped.release();
    }
  });

  it("copies windows of a section, up to its last byte and not beyond", async () => {
    const store = await open();
    const weights = bytesOf(MiB + 7, 1);
    const mapped = await mapOf(store, await store.publish(id, { weights }), 0);
    for (const [from, length] of [
      [0, 5],
      [MiB, 7],
      [MiB + 7, 0],
      [12_345, 300_000],
    ] as const) {
      const into = new Uint8Array(length);
      await mapped.copyTo("weights", into, { ...patience(), from });
      expect(Buffer.compare(into, weights.subarray(from, from + length))).toBe(0);
    }
    const beyond = mapped.copyTo("weights", new Uint8Array(8), { ...patience(), from: MiB });
    await expect(beyond).rejects.toThrow(`from is ${MiB}; give a whole number from 0 to ${MiB - 1}`);
    await expect(mapped.copyTo("weights", new Uint8Array(8), { ...patience(), from: -1 })).rejects.toThrow(
      "from is -1",
    );
  });

  it("gives a store a copy of its own, which stays when holder and mapping are gone", async () => {
    const [store, own] = [await open(), await open({ member: "own" })];
    const published = { weights: bytesOf(3 * MiB + 1, 1), none: bytesOf(0, 0) };
    const sections = await store.publish(id, published);
    const mapped = await mapOf(store, sections, 0);
    const keeping = own.keep(id, mapped);
    mapped.release();
    expect(await keeping).toEqual(sections);
    await store.close();
    const options = pullOf(id, sections, [own.addresses[0]!]);
    expect((await pullVersion(options)).from).toBe(own.addresses[0]);
    expect(Buffer.compare(options.into.weights!, published.weights)).toBe(0);
    await expect(own.keep(id, mapped)).rejects.toThrow("mapped is released");
    await expect(own.keep(id, { ...mapped })).rejects.toThrow("mapped is not a mapped version");
  });

  it("copies a section into memory of the caller, and goes on when the version is released meanwhile", async () => {
    const store = await open();
    const published = { weights: bytesOf(9 * MiB + 5, 1), none: bytesOf(0, 0) };
    const sections = await store.publish(id, published);
    for (const place of [0, 1]) {
      const mapped = await mapOf(store, sections, place);
      const into = new Uint8Array(published.weights.length);
      await mapped.copyTo("none", new Uint8Array(), patience());
      const copying = mapped.copyTo("weights", into, patience());
      mapped.release();
      await copying;
      expect(Buffer.compare(into, published.weights)).toBe(0);
    }
  });

  it("refuses to copy what was not asked for, into memory of another size, when aborted, and after the release", async () => {
    const store = await open();
    const mapped = await mapOf(store, await store.publish(id, { weights: bytesOf(MiB, 1) }), 0);
    const into = new Uint8Array(MiB);
    await expect(mapped.copyTo("weights", new Uint8Array(7), patience())).rejects.toThrow(
      "into.weights is 7 bytes long",
    );
    await expect(mapped.copyTo("bias", into, patience())).rejects.toThrow("name a section that was asked for");
    const aborted = { ...patience(), signal: AbortSignal.abort() };
    await expect(mapped.copyTo("weights", into, aborted)).rejects.toEqual(failure("MUSTER_ERR_PULL_ABORTED"));
    mapped.release();
    await expect(mapped.copyTo("weights", into, patience())).rejects.toThrow("version is released");
  });

  it("stays what it was while the holder publishes new versions, as long as it is not released", async () => {
    const store = await open();
    const weights = bytesOf(MiB, 1);
    const mapped = await mapOf(store, await store.publish(id, { weights }), 0);
    for (let version = 50; version < 56; version++)
      await store.publish({ lineage: 3, version }, { weights: bytesOf(MiB, version) });
    expect(Buffer.compare(await contentOf(mapped, "weights", MiB), weights)).toBe(0);
    mapped.release();
  });

  it("into a store makes that store a holder of what came over tcp, and fetches nothing twice", async () => {
    const [store, keepIn] = [await open(), await open({ member: "relay" })];
    const weights = bytesOf(5 * MiB + 7, 1);
    const sections = await store.publish(id, { weights });
    (await mapOf(store, sections, 1, keepIn)).release();
    expect(keepIn.holds(id)).toBe(true);
    await store.close();
    const options = pullOf(id, sections, [keepIn.addresses[1]!]);
    expect((await pullVersion(options)).from).toBe(keepIn.addresses[1]);
    expect(Buffer.compare(options.into.weights!, weights)).toBe(0);
    expect(await mapOf(store, sections, 1, keepIn)).toMatchObject({ via: "memory", from: keepIn.addresses[0] });
  });

  it("refuses what is no open store", async () => {
    const store = await open();
    const sections = await store.publish(id, { weights: bytesOf(10, 1) });
    await expect(mapOf(store, sections, 0, { ...store })).rejects.toThrow("keepIn is not an open store");
  });
});

describe("a section in pieces", () => {
  it("is the same as in one, whatever the number of its pieces", async () => {
    const store = await open();
    const weights = bytesOf(3 * MiB + 5, 1);
    const cuts = [0, MiB / 4, MiB, MiB, 3 * MiB, weights.length];
    const pieces = cuts.slice(1).map((end, i) => weights.subarray(cuts[i], end));
    const sections = await store.publish(id, { bias: bytesOf(9, 2), weights: pieces, none: [] });
    expect(sections.map(({ bytes }) => bytes)).toEqual([9, weights.length, 0]);
    expect(sections.map(({ digest }) => digest)).toEqual([bytesOf(9, 2), weights, bytesOf(0, 0)].map(digestOf));
    expect(await store.publish(id, { bias: bytesOf(9, 2), weights, none: bytesOf(0, 0) })).toEqual(sections);
    const options = pullOf(id, sections, [store.addresses[0]!]);
    await pullVersion(options);
    expect(Buffer.compare(options.into.weights!, weights)).toBe(0);
  });

  it("has pieces that end where blocks do, but for the last", async () => {
    const store = await open();
    const publishing = store.publish(id, { weights: [bytesOf(MiB + 1, 1), bytesOf(1, 1)] });
    await expect(publishing).rejects.toThrow(
      "sections.weights is a piece of 1048577 bytes; give pieces of a multiple of 262144 bytes",
    );
    expect(store.holds(id)).toBe(false);
  });
});

describe("a stream that breaks off", () => {
  const sizeBytes = 12 * MiB;

  it("goes on with the next holder where it stood", async () => {
    const [first, second] = [await open({ member: "a" }), await open({ member: "b" })];
    const weights = bytesOf(sizeBytes, 1);
    const sections = await first.publish(id, { weights });
    await second.publish(id, { weights });
    const cut = await relay(tcpOf(first), 8 * MiB, (reader, holder) => {
      reader.end(); // after what was relayed so far
      holder.destroy();
    });
    const rest = await relay(tcpOf(second), Number.POSITIVE_INFINITY, () => {});
    const options = pullOf(id, sections, [cut.address, rest.address]);
    expect((await pullVersion(options)).from).toBe(rest.address);
    expect(Buffer.compare(options.into.weights!, weights)).toBe(0);
    expect(rest.relayedBytes()).toBeLessThan(sizeBytes - 4 * MiB);
    cut.close();
    rest.close();
  });

  it("goes on with the next holder after a short silence", async () => {
    const store = await open();
    const weights = bytesOf(sizeBytes, 1);
    const sections = await store.publish(id, { weights });
    const silent = await relay(tcpOf(store), 4 * MiB, (_reader, holder) => holder.pause());
    const options = pullOf(id, sections, [silent.address, tcpOf(store)]);
    const pulled = await pullVersion(options);
    expect(pulled.from).toBe(tcpOf(store));
    expect(pulled.durationMs).toBeGreaterThan(140);
    expect(Buffer.compare(options.into.weights!, weights)).toBe(0);
    silent.close();
  });

  it("ends at once on an abort, and at its deadline, and leaves the target as it was", async () => {
    const store = await open();
    const sections = await store.publish(id, { weights: bytesOf(sizeBytes, 1) });
    let stalled = false;
    const silent = await relay(tcpOf(store), 4 * MiB, (_reader, holder) => {
      stalled = true;
      holder.pause();
    });
    const abort = new AbortController();
    const options = { ...pullOf(id, sections, [silent.address]), signal: abort.signal };
    const aborted = pullVersion(options).catch((error: unknown) => error);
    await until("the stream to stall", () => stalled);
    const abortedAtMs = performance.now();
    abort.abort();
    expect(hasCode(await aborted, "MUSTER_ERR_PULL_ABORTED")).toBe(true);
    expect(performance.now() - abortedAtMs).toBeLessThan(200);

    const hasty = { ...options, signal: new AbortController().signal, deadlineMs: 100 };
    await expect(pullVersion(hasty)).rejects.toEqual(failure("MUSTER_ERR_PULL_TIMEOUT"));
    expect(options.into.weights!.every((byte) => byte === 0)).toBe(true);
    silent.close();
  });

  it("notices a byte that was changed on the way, and gets the version from another holder", async () => {
    const store = await open();
    const weights = bytesOf(MiB, 1);
    const sections = await store.publish(id, { weights });
    const broken = await relay(tcpOf(store), 1000, (reader, holder) => {
      holder.removeAllListeners("data");
      holder.on("data", (chunk: Buffer) => {
        chunk[chunk.length - 1] = chunk[chunk.length - 1]! ^ 0x10;
        reader.write(chunk);
      });
    });
    const options = pullOf(id, sections, [broken.address, tcpOf(store)]);
    expect((await pullVersion(options)).from).toBe(tcpOf(store));
    expect(Buffer.compare(options.into.weights!, weights)).toBe(0);
    broken.close();
  });
});
