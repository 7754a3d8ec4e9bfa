import { execFileSync } from "node:child_process";
import { readdirSync, readlinkSync } from "node:fs";
import {
  type FileHandle,
  link,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type CheckpointStore,
  newestVerifiedCheckpoint,
  openCheckpointStore,
  type SavedCheckpoint,
} from "../src/index.ts";
import { nodeFs } from "../src/internal.ts";
import { contentOf, expectedOf, loadedOf, never, waiting } from "./content.ts";

const failsWith = (word: string): object => expect.objectContaining({ code: `MUSTER_ERR_CHECKPOINT_${word}` });

let folder: string;
let root: string;
let store: CheckpointStore;
let saved: SavedCheckpoint;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "muster-checkpoint-"));
  root = join(folder, "jobs", "dates");
  store = await waiting(openCheckpointStore({ root, keep: 1, now: () => new Date("2030-01-02T03:04:05.678Z") }));
  saved = await store.save(contentOf(7), never);
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

describe("on a real disk", () => {
  it("lays a checkpoint out in the Hugging Face way, with private modes", async () => {
    expect((await readdir(saved.path)).sort()).toEqual([
      "config.json",
      "manifest.json",
      "model.safetensors",
      "optimizer.safetensors",
    ]);
    for (const file of await readdir(saved.path)) expect((await stat(join(saved.path, file))).mode & 0o777).toBe(0o600);
    for (const path of [root, saved.path]) expect((await stat(path)).mode & 0o777).toBe(0o700);
    expect(JSON.parse(await readFile(join(saved.path, "config.json"), "utf8"))).toEqual(contentOf(7).modelConfig);
    expect(await readFile(join(root, "latest"), "utf8")).toBe("step-00000007-v7-t1\n");
    expect(loadedOf(await store.load(saved.name))).toEqual(expectedOf(contentOf(7)));
  });

  it("knows the room that is left in bytes, and the newest checkpoint of a folder whose files are whole", async () => {
    expect(await nodeFs.freeBytes(root)).toBeGreaterThan(1024 ** 2);
    expect(await newestVerifiedCheckpoint(root)).toMatchObject({ name: saved.name, step: 7 });
    await writeFile(join(saved.path, "config.json"), "{}");
    expect(await newestVerifiedCheckpoint(root)).toBeNull();
  });

  it("goes on with one checkpoint after the other and leaves no file behind", async () => {
    for (const step of [8, 9, 10]) await store.save(contentOf(step), never);
    expect((await readdir(root)).sort()).toEqual(["latest", "step-00000010-v10-t1"]);
  });

  it("keeps the manifest stable for readers of other versions", async () => {
    expect(await readFile(join(saved.path, "manifest.json"), "utf8")).toMatchInlineSnapshot(`
      "{
        "format": 2,
        "job": "dates",
        "lineage": 0,
        "step": 7,
        "version": 7,
        "term": 1,
        "sections": [
          {
            "name": "weights",
            "bytes": 40,
            "digest": "xxh64b:weights-7"
          },
          {
            "name": "optimizer",
            "bytes": 21,
            "digest": "xxh64b:optimizer-7"
          }
        ],
        "files": [
          {
            "name": "config.json",
            "bytes": 99,
            "sha256Tree": "e809b7ce89b589b49ea7b548b8eadf62da4a778c5b3c09e138386c540b0aa809"
          },
          {
            "name": "model.safetensors",
            "bytes": 232,
            "sha256Tree": "46684eeae4e0686a4e04af45e8c1b9bf555c037239de1ee9c87d679b4bb6f6b9"
          },
          {
            "name": "optimizer.safetensors",
            "bytes": 125,
            "sha256Tree": "d3b8a9d2b336edfa546adf35277962062683acc62e01193f79534ff44b5797a9"
          }
        ],
        "ledger": {
          "admitted": 56,
          "trained": 55,
          "aborted": 1,
          "quarantined": 0
        },
        "groupsWatermark": 21,
        "engineBuild": "embedded-0.1.0",
        "createdAt": "2030-01-02T03:04:05.678Z",
        "cursor": {
          "seed": 7,
          "nextStep": 8,
          "nextPrompt": 28,
          "groupsPerStep": 4,
          "groupSize": 2,
          "data": "dates"
        },
        "checksum": "70a48f69690010042445066bb0b6554c154b8e78e76910b63fb55710d16c1124"
      }
      "
    `);
  });
});

/** Paths of what this process has open in the folder. */
const openIn = (path: string): string[] =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(path) ? [target] : [];
    } catch {
      // The one of the listing itself is closed by now.
      return [];
    }
  });

/** What the handles of files are made of. */
async function handles(): Promise<FileHandle> {
  const handle = await open(folder);
  await handle.close();
  return Object.getPrototypeOf(handle);
}

describe("the files of this host", () => {
  it("are in folders that are known durably: each above a new root is flushed, up to the first that was there", async () => {
    const base = await realpath(folder);
    const synced: string[] = [];
    const sync = vi.spyOn(await handles(), "sync").mockImplementation(async function (this: FileHandle) {
      synced.push(readlinkSync(`/proc/self/fd/${this.fd}`));
    });
    try {
      await nodeFs.prepareRoot(join(folder, "a", "b", "c"));
      expect(synced).toEqual([join(base, "a", "b"), join(base, "a"), base]);
      await nodeFs.prepareRoot(join(folder, "a", "b", "c"));
      expect(synced).toHaveLength(3);
      expect(openIn(base)).toEqual([]);
    } finally {
      sync.mockRestore();
    }
  });

  it("have a signature of numbers, the same for a path and for what is opened there", async () => {
    const path = join(saved.path, "config.json");
    const file = await nodeFs.open(path);
    await file.close();
    expect(file.stat.signature).toMatch(/^\d+(?::\d+){5}$/);
    expect((await nodeFs.stat(path))?.signature).toBe(file.stat.signature);
  });

  it("do not stay open when it can not be told what they are", async () => {
    const look = vi.spyOn(await handles(), "stat").mockRejectedValue(new Error("EIO"));
    try {
      await expect(nodeFs.open(join(saved.path, "config.json"))).rejects.toThrow("EIO");
      expect(openIn(await realpath(folder))).toEqual([]);
    } finally {
      look.mockRestore();
    }
  });
});

describe("hostile names", () => {
  it.each([
    "../dates/step-00000007-v7-t1",
    "step-00000007-v7-t1/",
    "step-00000007-v7-t1/../x",
    "step-00000007-v7-t1\0",
    "step-00000007-v7-t1\n",
    "/etc",
    ".",
    "..",
    "",
    "step-7-v7-t1",
    "step-00000007-v07-t1",
    "step-00000007-v7-t1-a1",
    "step-00000007-v7-t1-a100",
    "step-٠0000007-v7-t1",
    "STEP-00000007-V7-T1",
    "step-00000007-v7-t1".repeat(1000),
  ])("refuses %j", async (name) => {
    await expect(store.load(name)).rejects.toEqual(failsWith("NAME_INVALID"));
    expect(() => store.pin(name)).toThrow(failsWith("NAME_INVALID") as Error);
  });

  it("are quoted from their first character on, and cut", () => {
    expect(() => store.pin(`.${"x".repeat(100)}`)).toThrow(`.${"x".repeat(63)}`);
    expect(() => store.pin("x".repeat(100))).not.toThrow("x".repeat(65));
  });
});

describe("hostile folders", () => {
  it("refuses a checkpoint folder that is a link, and does not list it", async () => {
    await rename(saved.path, join(folder, "elsewhere"));
    await symlink(join(folder, "elsewhere"), saved.path);
    await expect(store.load(saved.name)).rejects.toEqual(failsWith("CORRUPT"));
    expect(await store.list()).toEqual([]);
  });

  it.each(["manifest.json", "config.json", "model.safetensors"])("refuses a link in place of %s", async (file) => {
    await rename(join(saved.path, file), join(folder, file));
    await symlink(join(folder, file), join(saved.path, file));
    await expect(store.load(saved.name)).rejects.toEqual(failsWith("CORRUPT"));
    expect(await store.list()).toEqual([]);
  });

  it("refuses a file with a second name", async () => {
    await link(join(saved.path, "model.safetensors"), join(folder, "second"));
    await expect(store.load(saved.name)).rejects.toEqual(failsWith("CORRUPT"));
    expect(await store.list()).toEqual([]);
  });

  it("refuses a pipe without waiting for its writer", async () => {
    await rm(join(saved.path, "config.json"));
    execFileSync("mkfifo", [join(saved.path, "config.json")]);
    await expect(store.load(saved.name)).rejects.toEqual(failsWith("CORRUPT"));
  });

  it.each(["step-00000099-v7-t1", "step-00000007-v8-t1", "step-00000007-v7-t2"])(
    "refuses a folder under the name of another checkpoint: %s",
    async (name) => {
      expect(saved.name).toBe("step-00000007-v7-t1");
      await rename(saved.path, join(root, name));
      await expect(store.load(name)).rejects.toEqual(failsWith("CORRUPT"));
      expect(await store.latest()).toBeNull();
    },
  );

  it("survives names of checkpoints on things that are none", async () => {
    await writeFile(join(root, "step-00000001-v1-t1"), "a file");
    await mkdir(join(root, "step-00000002-v2-t1"));
    await symlink("step-00000003-v3-t1", join(root, "step-00000003-v3-t1"));
    expect((await store.list()).map((info) => info.name)).toEqual([saved.name]);
    await store.save(contentOf(8), never);
    expect((await store.list()).map((info) => info.step)).toEqual([8]);
  });

  it("does not replace an empty folder or a link that has the name", async () => {
    await mkdir(join(root, "step-00000008-v8-t1"));
    await symlink("/nowhere", join(root, "step-00000008-v8-t1-a2"));
    expect((await store.save(contentOf(8), never)).name).toBe("step-00000008-v8-t1-a3");
  });

  it("writes `latest` beside a link of that name, not through it", async () => {
    await writeFile(join(folder, "victim"), "untouched");
    await rm(join(root, "latest"));
    await symlink(join(folder, "victim"), join(root, "latest"));
    await store.save(contentOf(8), never);
    expect(await readFile(join(folder, "victim"), "utf8")).toBe("untouched");
    expect(await readFile(join(root, "latest"), "utf8")).toBe("step-00000008-v8-t1\n");
  });

  it("removes links, never what they point to", async () => {
    await mkdir(join(folder, "precious"));
    await writeFile(join(folder, "precious", "data"), "kept");
    await mkdir(join(root, ".tmp-step-00000001-v1-t1"));
    await symlink(join(folder, "precious"), join(root, ".tmp-step-00000001-v1-t1", "link"));
    await utimes(join(root, ".tmp-step-00000001-v1-t1"), 1, 1);
    expect(await store.sweep()).toEqual([".tmp-step-00000001-v1-t1"]);
    expect(await readFile(join(folder, "precious", "data"), "utf8")).toBe("kept");
  });

  it("never creates a file through a link", async () => {
    await symlink(join(folder, "victim"), join(root, "planted"));
    await expect(nodeFs.create(join(root, "planted"))).rejects.toMatchObject({ code: "EEXIST" });
  });
});
