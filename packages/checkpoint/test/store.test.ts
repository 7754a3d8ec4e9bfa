import { createHash } from "node:crypto";
import { randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import { type CheckpointContent, type CheckpointStore, loadCheckpoint, openCheckpointStore } from "../src/index.ts";
import { type CheckpointManifest, decodeManifest, encodeManifest } from "../src/manifest.ts";
import { contentOf, expectedOf, loadedOf, never, waiting } from "./content.ts";
import { MemoryDisk, systemError } from "./disk.ts";

const root = "/root";

async function emptyDisk(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  disk.calls = [];
  return disk;
}

const open = (disk: MemoryDisk, keep = 2): Promise<CheckpointStore> =>
  waiting(openCheckpointStore({ root, keep, fs: disk.fs, now: () => new Date(disk.nowMs) }));

const failsWith = (word: string, message = /./): object =>
  expect.objectContaining({ code: `MUSTER_ERR_CHECKPOINT_${word}`, message: expect.stringMatching(message) });

const latestOf = (disk: MemoryDisk): string => new TextDecoder().decode(disk.files().get(`${root}/latest`));

describe("save and load", () => {
  it("gives back every byte and every number of the content", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const content = contentOf(120, { lineage: 2, term: 3 });
    const saved = await store.save(content, never);
    expect(saved).toMatchObject({ name: "step-00000120-v120-t3", path: `${root}/step-00000120-v120-t3` });
    expect(disk.calls).toContain(`makeDirectory ${root}/.tmp-step-00000120-v120-t3`);
    expect(await saved.cleared).toEqual([]);
    const loaded = await store.load(saved.name);
    expect(loadedOf(loaded)).toEqual(expectedOf(content));
    expect(loaded.info).toMatchObject({ manifestDigest: saved.manifestDigest, bytes: saved.bytes });
    expect(loaded.info.createdAt).toBe("1970-01-01T00:00:00.000Z");
  });

  it("works without an optimizer section, and with sections larger than one chunk", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const bytes = new Uint8Array(9 * 1024 * 1024).map((_, index) => index % 251);
    const content = contentOf(1, {
      sections: [{ name: "weights", digest: "d", bytes }],
      tensors: [{ name: "w", dtype: "f32", shape: [bytes.length / 4], offsetBytes: 0, sizeBytes: bytes.length }],
    });
    const { name } = await store.save(content, never);
    const loaded = await store.load(name);
    expect(loaded.sections).toHaveLength(1);
    expect(Buffer.compare(loaded.sections[0]!.bytes, bytes)).toBe(0);
    expect([...disk.files().keys()].some((path) => path.endsWith("optimizer.safetensors"))).toBe(false);
  });

  it("reads a section piece by piece from a source, and gives the checkpoint that its bytes give", async () => {
    const bytes = new Uint8Array(9 * 1024 * 1024 + 4).map((_, index) => index % 251);
    const tensor = {
      name: "w",
      dtype: "f32",
      shape: [bytes.length / 4],
      offsetBytes: 0,
      sizeBytes: bytes.length,
    } as const;
    const saved = async (section: CheckpointContent["sections"][number]["bytes"]) => {
      const disk = await emptyDisk();
      const store = await open(disk);
      const sections = [{ name: "weights", digest: "d", bytes: section }] as const;
      const { manifestDigest } = await store.save(contentOf(1, { sections, tensors: [tensor] }), never);
      return manifestDigest;
    };
    const reads: number[] = [];
    const copyTo = async (into: Uint8Array, from: number) => {
      reads.push(into.length);
      into.set(bytes.subarray(from, from + into.length));
    };
    expect(await saved({ length: bytes.length, copyTo })).toBe(await saved(bytes));
    // In the pieces of the file, of which the first begins with the header, and each once: what was read back is compared with the copy that was written.
    const headerBytes = 4 * 1024 * 1024 - (reads[0] ?? 0);
    expect(headerBytes).toBeGreaterThan(8);
    expect(reads).toEqual([4 * 1024 * 1024 - headerBytes, 4 * 1024 * 1024, 1024 * 1024 + 4 + headerBytes]);
  });

  it("leaves nothing behind when a source fails in the middle", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const length = 5 * 1024 * 1024;
    const copyTo = async (_into: Uint8Array, from: number) => {
      if (from > 0) throw new Error("the holder is gone");
    };
    const content = contentOf(1, {
      sections: [{ name: "weights", digest: "d", bytes: { length, copyTo } }],
      tensors: [{ name: "w", dtype: "u8", shape: [length], offsetBytes: 0, sizeBytes: length }],
    });
    await expect(store.save(content, never)).rejects.toThrow("the holder is gone");
    expect([...disk.files().keys()]).toEqual([]);
  });

  it("closes every file that it opened, whichever call fails", async () => {
    for (let at = 0; ; at++) {
      const disk = await emptyDisk();
      const store = await open(disk);
      disk.calls = [];
      disk.fault = { atCall: at, when: "before", error: systemError("EIO") };
      await store.save(contentOf(1), never).catch(() => null);
      await store.load("step-00000001-v1-t1").catch(() => null);
      await store.list().catch(() => null);
      expect([at, disk.opened]).toEqual([at, []]);
      if (disk.calls.length <= at) return;
    }
  });

  it("reads by path what a save reported", async () => {
    const disk = await emptyDisk();
    const { path } = await (await open(disk)).save(contentOf(5), never);
    expect(loadedOf(await loadCheckpoint(path, { fs: disk.fs }))).toEqual(expectedOf(contentOf(5)));
  });

  it("gives the same checkpoint when the same version is saved again, also after newer ones", async () => {
    const disk = await emptyDisk();
    const store = await open(disk, 3);
    const first = await store.save(contentOf(10), never);
    disk.nowMs += 5_000;
    await store.save(contentOf(20), never);
    disk.calls = [];
    expect(await store.save(contentOf(10), never)).toEqual(first);
    expect(latestOf(disk)).toBe("step-00000020-v20-t1\n");
    expect(
      disk.calls.filter((call) => call.startsWith("create")),
      "`latest` names it already",
    ).toEqual([]);
    expect(disk.opened).toEqual([]);
    expect((await store.list()).map((info) => info.step)).toEqual([20, 10]);
  });

  it("takes the next free name for another content of the same step", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const first = await store.save(contentOf(10), never);
    const other = await store.save(contentOf(10, { lineage: 1 }), never);
    expect([first.name, other.name]).toEqual(["step-00000010-v10-t1", "step-00000010-v10-t1-a2"]);
    expect((await store.latest())?.name).toBe(other.name);
    expect(latestOf(disk)).toBe(`${other.name}\n`);
  });

  it("is told when it is durable, before what is not kept is removed; what is written next waits for that", async () => {
    const disk = await emptyDisk();
    await (await open(disk)).save(contentOf(1), never);
    let remove = (): void => {};
    const removing = new Promise<void>((resolve) => {
      remove = resolve;
    });
    const fs = { ...disk.fs, removeFile: (path: string) => removing.then(() => disk.fs.removeFile(path)) };
    const store = await openCheckpointStore({ root, keep: 1, fs, now: () => new Date(0) });
    const saved = await store.save(contentOf(2), never);
    expect([latestOf(disk), (await store.latest())?.step]).toEqual(["step-00000002-v2-t1\n", 2]);
    const next = store.save(contentOf(3), never);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    expect(disk.calls.filter((call) => call.includes("step-00000003"))).toEqual([]);
    expect([...disk.files().keys()].filter((path) => path.includes("/.trash-step-00000001"))).toHaveLength(4);
    remove();
    expect(await saved.cleared).toEqual([]);
    await (await next).cleared;
    expect([...(await disk.fs.list(root))].sort()).toEqual(["latest", "step-00000003-v3-t1"]);
  });

  it("does not count before what was written has been read back", async () => {
    const disk = await emptyDisk();
    const create = disk.fs.create;
    const lying = {
      ...disk.fs,
      create: async (path: string) => {
        const file = await create(path);
        const isModel = path.endsWith("model.safetensors");
        const write = (bytes: Uint8Array, at: number) =>
          file.write(isModel ? bytes.map((byte) => byte ^ 1) : bytes, at);
        return { ...file, write };
      },
    };
    const store = await waiting(openCheckpointStore({ root, keep: 1, fs: lying, now: () => new Date(0) }));
    await expect(store.save(contentOf(1), never)).rejects.toEqual(
      failsWith("WRITE_FAILED", /model.safetensors was read back with other bytes/),
    );
    expect(await store.list()).toEqual([]);
    expect([...disk.files().keys()]).toEqual([]);
  });

  const invalid: [string, Partial<CheckpointContent>, RegExp][] = [
    ["a step over eight digits", { step: 100_000_000 }, /step is 100000000/],
    ["a term that is not whole", { term: 1.5 }, /term is 1.5/],
    ["a job name that is a path", { job: "../x" }, /manifest job/],
    ["a negative count", { groupsWatermark: -1 }, /manifest groupsWatermark/],
    ["no weights", { sections: [] }, /sections must be one of weights/],
    ["weights twice", { sections: [0, 0].flatMap((at) => contentOf(1).sections[at] ?? []) }, /must be one of weights/],
    ["an optimizer without weights", { sections: contentOf(1).sections.slice(1) }, /must be one of weights/],
    ["two optimizers", { sections: [0, 1, 1].flatMap((at) => contentOf(1).sections[at] ?? []) }, /one of optimizer/],
    [
      "tensors that do not tile the weights",
      { tensors: contentOf(1).tensors.slice(0, 1) },
      /tensors of section weights/,
    ],
    ["a configuration that is no object", { modelConfig: [] }, /modelConfig must be a plain object/],
  ];
  it.each(invalid)("refuses %s and writes nothing", async (_, changes, reason) => {
    const disk = await emptyDisk();
    const save = (await open(disk)).save(contentOf(1, changes), never);
    await expect(save).rejects.toEqual(failsWith("CONTENT_INVALID", reason));
    expect([...disk.files().keys()]).toEqual([]);
  });

  it("refuses what is no checkpoint also where one of that version is there already", async () => {
    const store = await open(await emptyDisk());
    await store.save(contentOf(1), never);
    const { tensors } = contentOf(1);
    for (const changes of [{ tensors: tensors.slice(0, 1) }, { modelConfig: [] }])
      await expect(store.save(contentOf(1, changes), never)).rejects.toEqual(failsWith("CONTENT_INVALID"));
  });

  it("takes the largest numbers that its names hold, and none beyond", async () => {
    const store = await open(await emptyDisk());
    const largest = { lineage: Number.MAX_SAFE_INTEGER, step: 99_999_999, version: 9_999_999_999, term: 9_999_999_999 };
    const { name } = await store.save(contentOf(1, largest), never);
    expect(name).toBe("step-99999999-v9999999999-t9999999999");
    expect((await store.load(name)).info).toMatchObject(largest);
    for (const [field, value] of Object.entries(largest))
      await expect(store.save(contentOf(1, { ...largest, [field]: value + 1 }), never)).rejects.toEqual(
        failsWith("CONTENT_INVALID", new RegExp(`${field} is`)),
      );
  });

  it("ends on its signal at any call and leaves nothing behind", async () => {
    const probe = await emptyDisk();
    await (await open(probe)).save(contentOf(1), never);
    const commit = probe.calls.findIndex((call) => call.startsWith(`rename ${root}/.tmp-step`));
    for (let atCall = 1; atCall < commit - 1; atCall++) {
      const disk = await emptyDisk();
      const controller = new AbortController();
      const push = disk.calls.push.bind(disk.calls);
      disk.calls.push = (...items) => {
        if (disk.calls.length === atCall) controller.abort(new Error("deadline"));
        return push(...items);
      };
      await expect((await open(disk)).save(contentOf(1), controller.signal)).rejects.toEqual(failsWith("ABORTED"));
      expect([...disk.files().keys()]).toEqual([]);
    }
  });

  it("bounds its queue", async () => {
    const store = await open(await emptyDisk(), 9);
    const saves = Array.from({ length: 12 }, (_, index) => store.save(contentOf(index + 1), never));
    const results = await Promise.allSettled(saves);
    expect(results.map((result) => result.status)).toEqual([
      ...Array(8).fill("fulfilled"),
      ...Array(4).fill("rejected"),
    ]);
    expect(results.at(-1)).toEqual({ status: "rejected", reason: failsWith("BUSY") });
  });
});

describe("order", () => {
  it("refuses an older step, an ended term and another job, and `latest` stays", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    await store.save(contentOf(50, { term: 4 }), never);
    await expect(store.save(contentOf(40, { term: 4 }), never)).rejects.toEqual(failsWith("STALE", /step 40/));
    await expect(store.save(contentOf(60, { term: 3 }), never)).rejects.toEqual(failsWith("FENCED", /term 3/));
    await expect(store.save(contentOf(60, { job: "sums" }), never)).rejects.toEqual(failsWith("FOREIGN", /"dates"/));
    expect(latestOf(disk)).toBe("step-00000050-v50-t4\n");
    await store.save(contentOf(40, { term: 5, lineage: 1 }), never);
    expect(latestOf(disk)).toBe("step-00000040-v40-t5\n");
  });
});

describe("damage", () => {
  it("is seen at any flipped bit of any file, and the older checkpoint is the latest then", async () => {
    const random = randomOf(31);
    const disk = await emptyDisk();
    const saved = await (await open(disk)).save(contentOf(1), never);
    const newest = await (await open(disk)).save(contentOf(2), never);
    const files = [...disk.files()].filter(([path]) => path.startsWith(newest.path));
    expect(files).toHaveLength(4);
    for (const [path, data] of files) {
      const bits = Array.from({ length: 60 }, () => random.below(data.length * 8));
      for (const bit of [0, 8 * 8, data.length * 8 - 1, ...bits]) {
        disk.flipBit(path, bit);
        const store = await open(disk);
        await expect(store.load(newest.name), `${path} bit ${bit}`).rejects.toEqual(failsWith("CORRUPT"));
        expect((await store.latest())?.name).toBe(saved.name);
        disk.flipBit(path, bit);
      }
    }
    expect((await (await open(disk)).latest())?.name).toBe(newest.name);
  });

  it("never takes the last whole checkpoint along: damaged ones do not count for retention", async () => {
    const disk = await emptyDisk();
    const store = await open(disk, 1);
    const whole = await store.save(contentOf(1), never);
    disk.flipBit(`${(await store.save(contentOf(2), never)).path}/config.json`, 9);
    expect(await store.latest()).toBeNull();
    const next = await store.save(contentOf(2), never);
    expect(next.name).toBe("step-00000002-v2-t1-a2");
    expect(loadedOf(await store.load(next.name))).toEqual(expectedOf(contentOf(2)));
    await expect(store.load(whole.name)).rejects.toEqual(failsWith("MISSING"));
  });

  it("takes a folder that lacks a file for damaged, and one that is not there for gone", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const { name, path } = await store.save(contentOf(1), never);
    for (const file of ["optimizer.safetensors", "manifest.json"]) {
      await disk.fs.removeFile(`${path}/${file}`);
      await expect(store.load(name), file).rejects.toEqual(failsWith("CORRUPT", /a file is gone/));
    }
    await expect(store.load("step-00000002-v2-t1")).rejects.toEqual(failsWith("MISSING"));
  });

  it("does not hide a checkpoint because of a failure that says nothing about it", async () => {
    const disk = await emptyDisk();
    await (await open(disk)).save(contentOf(1), never);
    const store = await open(disk);
    const atCall = disk.calls.length + 10;
    disk.fault = { atCall, when: "before", error: systemError("EMFILE") };
    await expect(store.latest()).rejects.toEqual(failsWith("READ_FAILED", /EMFILE/));
    expect((await store.latest())?.step).toBe(1);
  });

  it("hashes a checkpoint once as long as its files do not change", async () => {
    const disk = await emptyDisk();
    await (await open(disk)).save(contentOf(1), never);
    const store = await open(disk);
    const reads = (): number => disk.calls.filter((call) => call.startsWith("read ")).length;
    await store.list();
    const before = reads();
    await store.list();
    expect(reads()).toBe(before);
    disk.flipBit(`${root}/step-00000001-v1-t1/model.safetensors`, 3);
    expect(await store.list()).toEqual([]);
  });

  const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();

  async function replace(disk: MemoryDisk, path: string, bytes: Uint8Array): Promise<void> {
    await disk.fs.removeFile(path);
    const file = await disk.fs.create(path);
    await file.write(bytes, 0);
    await file.close();
  }

  /** Writes another manifest for a checkpoint, as a program would that says other things of the same files. */
  async function say(disk: MemoryDisk, path: string, change: (manifest: CheckpointManifest) => object): Promise<void> {
    const said = decodeManifest(disk.files().get(`${path}/manifest.json`) ?? new Uint8Array());
    await replace(disk, `${path}/manifest.json`, encodeManifest(change(said) as CheckpointManifest));
  }

  it.each(["step-00000002-v1-t1", "step-00000001-v2-t1", "step-00000001-v1-t2"])(
    "is a manifest of another step, version or term than its folder's name: %s",
    async (name) => {
      const disk = await emptyDisk();
      const { path } = await (await open(disk)).save(contentOf(1), never);
      await disk.fs.rename(path, `${root}/${name}`);
      const store = await open(disk);
      await expect(store.load(name)).rejects.toEqual(failsWith("CORRUPT", /of another checkpoint/));
      expect(await store.list()).toEqual([]);
    },
  );

  it.each(["null", "3", '"x"'])("is a configuration that is no object: %s", async (text) => {
    const disk = await emptyDisk();
    const { name, path } = await (await open(disk)).save(contentOf(1), never);
    const bytes = new TextEncoder().encode(text);
    await replace(disk, `${path}/config.json`, bytes);
    const sha256Tree = sha256(sha256(bytes)).toString("hex");
    await say(disk, path, (said) => ({
      ...said,
      files: said.files.map((file) =>
        file.name === "config.json" ? { ...file, bytes: bytes.length, sha256Tree } : file,
      ),
    }));
    await expect((await open(disk)).load(name)).rejects.toEqual(failsWith("CORRUPT", /config.json is not an object/));
  });

  it.each([
    ["weights", -1],
    ["weights", 1],
    ["optimizer", -1],
    ["optimizer", 1_000_000],
  ] as const)("is a section %s that its manifest has larger by %i than its file", async (section, more) => {
    const disk = await emptyDisk();
    const { name, path } = await (await open(disk)).save(contentOf(1), never);
    await say(disk, path, (said) => ({
      ...said,
      sections: said.sections.map((one) => (one.name === section ? { ...one, bytes: one.bytes + more } : one)),
    }));
    await expect((await open(disk)).load(name)).rejects.toEqual(failsWith("CORRUPT"));
  });

  it("is a section with more bytes than its files, for which no memory is taken", async () => {
    for (const [more, reason] of [
      [0, /^(?!.*at most)/],
      [1, /section weights has at most \d+ bytes, not \d+/],
    ] as const) {
      const disk = await emptyDisk();
      const { name, path } = await (await open(disk)).save(contentOf(1), never);
      const bytes = (disk.files().get(`${path}/model.safetensors`)?.length ?? 0) + more;
      const grow = <S extends { readonly name: string }>(one: S) => (one.name === "weights" ? { ...one, bytes } : one);
      await say(disk, path, (said) => ({ ...said, sections: said.sections.map(grow) }));
      await expect((await open(disk)).load(name)).rejects.toEqual(failsWith("CORRUPT", reason));
    }
  });

  it("is a section that the shards do not fill", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    await store.saveShards(contentOf(1), { indices: [1, 2], of: 2 }, never);
    const { name, path } = await store.seal(contentOf(1), 2, never);
    const grow = <S extends { readonly name: string; readonly bytes: number }>(one: S) => ({
      ...one,
      bytes: one.bytes + 1,
    });
    await say(disk, path, (said) => ({ ...said, sections: said.sections.map(grow) }));
    await expect((await open(disk)).load(name)).rejects.toEqual(failsWith("CORRUPT", /section weights has 40 bytes/));
  });

  it("is a manifest beyond its bound, which is not read, and one up to it is", async () => {
    const disk = await emptyDisk();
    const { name, path } = await (await open(disk)).save(contentOf(1), never);
    for (const [bytes, reason] of [
      [1024 * 1024, /not JSON/],
      [1024 * 1024 + 1, /manifest.json has 1048577 bytes/],
    ] as const) {
      await replace(disk, `${path}/manifest.json`, new Uint8Array(bytes));
      await expect((await open(disk)).load(name)).rejects.toEqual(failsWith("CORRUPT", reason));
    }
  });

  it.each([
    ["a file that is none", "model.safetensors", { kind: "other" }, /is not a plain file/],
    ["a file that has a second name", "config.json", { links: 2 }, /is not a plain file/],
    ["a link in place of the folder", "step-00000001-v1-t1", { kind: "other" }, /it is not a folder/],
  ] as const)("is %s", async (_, at, patch, reason) => {
    const disk = await emptyDisk();
    const { name } = await (await open(disk)).save(contentOf(1), never);
    const patched = <S extends object | null>(path: string, stat: S): S =>
      stat && path.endsWith(`/${at}`) ? { ...stat, ...patch } : stat;
    const fs = {
      ...disk.fs,
      stat: async (path: string) => patched(path, await disk.fs.stat(path)),
      open: async (path: string) => {
        const file = await disk.fs.open(path);
        return { ...file, stat: patched(path, file.stat) };
      },
    };
    const store = await waiting(openCheckpointStore({ root, keep: 1, fs, now: () => new Date(0) }));
    await expect(store.load(name)).rejects.toEqual(failsWith("CORRUPT", reason));
  });

  it("is not what a load met that nobody waits for any more", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const { name } = await store.save(contentOf(1), never);
    await expect(store.load(name, AbortSignal.abort(new Error("given up")))).rejects.toEqual(
      failsWith("READ_FAILED", /given up/),
    );
  });
});

describe("retention", () => {
  const stepsIn = async (store: CheckpointStore): Promise<number[]> => (await store.list()).map(({ step }) => step);

  it("keeps the newest ones, and what is pinned with all that is newer", async () => {
    const store = await open(await emptyDisk(), 2);
    const steps = (): Promise<number[]> => stepsIn(store);
    await store.save(contentOf(1), never);
    const release = store.pin((await store.save(contentOf(2), never)).name);
    for (const step of [3, 4, 5]) await store.save(contentOf(step), never);
    expect(await steps()).toEqual([5, 4, 3, 2]);
    release();
    release();
    await store.save(contentOf(6), never);
    expect(await steps()).toEqual([6, 5]);
  });

  it("leaves more while nothing that is pinned is here, whoever wrote it: each may be the one that is named next", async () => {
    const disk = await emptyDisk();
    const openOne = () =>
      waiting(openCheckpointStore({ root, keep: 1, keepUnpinned: 3, fs: disk.fs, now: () => new Date(disk.nowMs) }));
    const died = await openOne();
    for (const step of [1, 2]) await died.save(contentOf(step), never);
    const store = await openOne();
    store.pin("step-00000009-v9-t1");
    await store.save(contentOf(3), never);
    expect(await stepsIn(store)).toEqual([3, 2, 1]);
    await store.save(contentOf(4), never);
    expect(await stepsIn(store)).toEqual([4, 3, 2]);
    store.pin((await store.latest())?.name ?? "");
    await store.save(contentOf(5), never);
    expect(await stepsIn(store)).toEqual([5, 4]);
  });

  it("says what it could not remove; the checkpoint is durable all the same", async () => {
    const disk = await emptyDisk();
    const fs = { ...disk.fs, removeFile: (path: string) => Promise.reject(systemError(`EACCES ${path}`)) };
    const store = await waiting(openCheckpointStore({ root, keep: 1, fs, now: () => new Date(0) }));
    await store.save(contentOf(1), never);
    const { cleared } = await store.save(contentOf(2), never);
    expect(await cleared).toEqual([expect.stringMatching(/^older checkpoints could not be removed: EACCES .*trash/)]);
    expect(await stepsIn(store)).toEqual([2]);
  });

  it("spares one version more, by itself, as long as it is named", async () => {
    const store = await open(await emptyDisk(), 2);
    for (const step of [1, 2]) await store.save(contentOf(step), never);
    const { step, version } = contentOf(1);
    store.spare({ step, version });
    for (const step of [3, 4, 5]) await store.save(contentOf(step), never);
    expect(await stepsIn(store)).toEqual([5, 4, 1]);
    store.spare(null);
    await store.save(contentOf(6), never);
    expect(await stepsIn(store)).toEqual([6, 5]);
  });

  it("leaves what a late writer is about to report, and what is newer, when another one has gone on meanwhile", async () => {
    const disk = await emptyDisk();
    const [late, other] = [await open(disk, 1), await open(disk, 1)];
    await other.save(contentOf(1), never);
    other.pin((await other.save(contentOf(2), never)).name);
    await other.save(contentOf(3), never);
    const { path } = await late.save(contentOf(2), never);
    expect(await stepsIn(late)).toEqual([3, 2]);
    expect(loadedOf(await loadCheckpoint(path, { fs: disk.fs }))).toEqual(expectedOf(contentOf(2)));
  });

  it("races a reader at every call: the reader gets a whole checkpoint or hears that it is gone", async () => {
    const outcomes = { whole: 0, gone: 0 };
    for (let atCall = 0; ; atCall++) {
      const disk = await emptyDisk();
      const writer = await open(disk, 1);
      const { name } = await writer.save(contentOf(1), never);
      let calls = 0;
      const turn = async (): Promise<void> => {
        if (calls++ === atCall) await writer.save(contentOf(2), never);
      };
      const fs = {
        ...disk.fs,
        open: async (path: string) => {
          await turn();
          const file = await disk.fs.open(path);
          return { ...file, read: async (target: Uint8Array, at: number) => turn().then(() => file.read(target, at)) };
        },
      };
      const reader = await waiting(openCheckpointStore({ root, keep: 1, fs, now: () => new Date(0) }));
      const loaded = await reader.load(name).catch((error: unknown) => {
        expect(error).toEqual(failsWith("MISSING"));
        expect(error).toMatchObject({ retryable: true });
        return null;
      });
      if (loaded) expect(loadedOf(loaded)).toEqual(expectedOf(contentOf(1)));
      outcomes[loaded ? "whole" : "gone"]++;
      if (calls <= atCall) break;
    }
    expect(outcomes).toEqual({ whole: 4, gone: 5 });
  });
});

function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

describe("sweep", () => {
  it("removes leftovers only when they are older than the grace, and nothing else", async () => {
    const disk = await emptyDisk();
    await disk.fs.makeDirectory(`${root}/.tmp-step-00000001-v1-t1`);
    await disk.fs.makeDirectory(`${root}/.trash-step-00000001-v1-t1-a2-3`);
    await disk.fs.makeDirectory(`${root}/.git`);
    await (await disk.fs.create(`${root}/.tmp-step-00000001-v1-t1/model.safetensors`)).close();
    await (await disk.fs.create(`${root}/notes.txt`)).close();
    const store = await open(disk);
    disk.nowMs = 3_599_999;
    expect(await store.sweep()).toEqual([]);
    disk.nowMs = 3_600_000;
    expect(await store.sweep()).toEqual([".tmp-step-00000001-v1-t1", ".trash-step-00000001-v1-t1-a2-3"]);
    expect([...(await disk.fs.list(root))].sort()).toEqual([".git", "notes.txt"]);
  });

  it("leaves a folder alone whose checkpoints are of another job", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    await store.save(contentOf(1), never);
    await disk.fs.makeDirectory(`${root}/.tmp-step-00000009-v9-t1`);
    disk.nowMs = 3_600_000;
    expect(await store.sweep("another")).toEqual([]);
    expect(await store.sweep(contentOf(1).job)).toEqual([".tmp-step-00000009-v9-t1"]);
  });

  it("goes by the clock of the disk: a host whose own clock is hours ahead leaves what others are writing", async () => {
    const disk = await emptyDisk();
    const inHours = () => new Date(disk.nowMs + 5 * 3_600_000);
    const store = await waiting(openCheckpointStore({ root, keep: 1, fs: disk.fs, now: inHours }));
    await disk.fs.makeDirectory(`${root}/.tmp-step-00000009-v9-t1`);
    expect(await store.sweep()).toEqual([]);
    await store.save(contentOf(1), never);
    expect(await disk.fs.list(root)).toContain(".tmp-step-00000009-v9-t1");
    disk.nowMs += 3_600_000;
    await store.save(contentOf(2), never);
    expect((await disk.fs.list(root)).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("takes a leftover away as a whole: a writer that only stood still and goes on meanwhile has all of it or nothing", async () => {
    const disk = await emptyDisk();
    const [standing, goingOn] = [gate(), gate()];
    const slow: typeof disk.fs = {
      ...disk.fs,
      rename: async (from, to) => {
        if (from.includes("/.tmp-step-") && !from.endsWith(".tmp")) {
          standing.open();
          await goingOn.opened;
        }
        await disk.fs.rename(from, to);
      },
    };
    const writing = (await waiting(openCheckpointStore({ root, keep: 2, fs: slow, now: () => new Date(disk.nowMs) })))
      .save(contentOf(1), never)
      .then(
        () => "saved",
        () => "failed",
      );
    await standing.opened;
    disk.nowMs += 3_600_000;
    const removing: typeof disk.fs = {
      ...disk.fs,
      removeFile: async (path) => {
        await disk.fs.removeFile(path);
        if (!path.includes("step-")) return;
        goingOn.open();
        await writing;
      },
    };
    await (
      await waiting(openCheckpointStore({ root, keep: 2, fs: removing, now: () => new Date(disk.nowMs) }))
    ).sweep();
    expect([await writing, await (await open(disk)).list()]).toEqual(["failed", []]);
    expect([...disk.files().keys()].filter((path) => path.includes("step-"))).toEqual([]);
  });

  it("makes room on a full disk, once what a dead writer has left there is old enough", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    await store.save(contentOf(1), never);
    await disk.fs.makeDirectory(`${root}/.tmp-step-00000002-v2-t1`);
    const left = await disk.fs.create(`${root}/.tmp-step-00000002-v2-t1/model.safetensors`);
    await left.write(new Uint8Array(1_000_000), 0);
    disk.bytesMax = [...disk.files().values()].reduce((sum, { length }) => sum + length, 0);
    await expect(store.save(contentOf(3), never)).rejects.toEqual(failsWith("DISK_FULL"));
    disk.nowMs += 3_600_000;
    expect(await (await store.save(contentOf(3), never)).cleared).toEqual([]);
  });
});
