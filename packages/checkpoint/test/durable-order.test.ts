/** Quick look at the order of flushes: whatever a loss of power leaves, at any call, hangs together. What recovery makes of it is tested with the crashes. */
import { randomOf } from "@muster/base";
import { expect, it } from "vitest";
import { type CheckpointStore, openCheckpointStore } from "../src/index.ts";
import { contentOf, never, waiting } from "./content.ts";
import { MemoryDisk } from "./disk.ts";

const root = "/root";

/** Files by folder of the root, with those in the root itself under ".". */
function foldersOf(files: ReadonlyMap<string, Uint8Array>): Map<string, Map<string, Uint8Array>> {
  const folders = new Map<string, Map<string, Uint8Array>>();
  for (const [path, data] of files) {
    const [name = "", inside] = path.slice(root.length + 1).split("/");
    const [folder, file] = inside === undefined ? [".", name] : [name, inside];
    folders.set(folder, (folders.get(folder) ?? new Map()).set(file, data));
  }
  return folders;
}

/** What is visible without all that it stands for: a checkpoint without a file, a note without its shard, `latest` without what it names. */
function flawsOf(disk: MemoryDisk): readonly string[] {
  const folders = foldersOf(disk.files());
  const flaws: string[] = [];
  const isWhole = (folder: string, names: readonly string[]): boolean =>
    names.every((name) => (folders.get(folder)?.get(name)?.length ?? 0) > 0);
  const shard = (index: number): string[] =>
    ["model", "optimizer"].map((kind) => `${kind}-0000${index}-of-00002.safetensors`);
  for (const [folder, files] of folders) {
    const isSharded = files.has("model.safetensors.index.json");
    const model = isSharded ? [...shard(1), ...shard(2)] : ["model.safetensors", "optimizer.safetensors"];
    if (folder.startsWith("step-") && !isWhole(folder, ["manifest.json", "config.json", ...model])) flaws.push(folder);
    for (const index of [1, 2]) {
      const note = `shard-0000${index}-of-00002.json`;
      if (files.has(note) && !isWhole(folder, [note, ...shard(index)])) flaws.push(`${folder}/${note}`);
    }
  }
  const latest = folders.get(".")?.get("latest");
  const named = latest && new TextDecoder().decode(latest).trimEnd();
  if (named !== undefined && !folders.has(named)) flaws.push(`latest: ${named}`);
  return flaws;
}

it("at every call of saves, removals and shards, what a loss of power leaves is whole or invisible, and what was reported stays", async () => {
  const disk = new MemoryDisk();
  const random = randomOf(5);
  await disk.fs.makeDirectory(root);
  await disk.fs.syncDirectory("/");
  const store: CheckpointStore = await waiting(
    openCheckpointStore({ root, keep: 1, fs: disk.fs, now: () => new Date(0) }),
  );
  const push = disk.calls.push.bind(disk.calls);
  disk.calls.push = (...calls) => {
    for (const survival of ["nothing", ...Array<typeof random>(6).fill(random)] as const)
      expect([...calls, ...flawsOf(disk.afterCrash(survival))]).toEqual(calls);
    return push(...calls);
  };
  const left = (): string[] => {
    const folders = foldersOf(disk.afterCrash("nothing").files());
    return [...folders]
      .filter(([name]) => !/^\.(?:trash-.*)?$/.test(name))
      .map(([name, files]) => `${name} ${files.size}`);
  };
  const latest = (): string => new TextDecoder().decode(disk.afterCrash("nothing").files().get(`${root}/latest`));

  await store.save(contentOf(1), never);
  expect([left(), latest()]).toEqual([["step-00000001-v1-t1 4"], "step-00000001-v1-t1\n"]);
  await store.save(contentOf(2), never);
  expect([left(), latest()]).toEqual([["step-00000002-v2-t1 4"], "step-00000002-v2-t1\n"]);
  await store.saveShards(contentOf(3), { indices: [1], of: 2 }, never);
  await store.saveShards(contentOf(3), { indices: [2], of: 2 }, never);
  const [sealed, open] = left();
  expect([sealed, open?.replace(/-[0-9a-f]{16}/, ""), latest()]).toEqual([
    "step-00000002-v2-t1 4",
    expect.stringMatching(/^\.set-l0-step-00000003-v3 [67]$/),
    "step-00000002-v2-t1\n",
  ]);
  await store.seal(contentOf(3), 2, never);
  expect(latest()).toBe("step-00000003-v3-t1\n");
  expect(left()).toEqual([expect.stringMatching(/^step-00000003-v3-t1 \d+$/)]);
  expect(await disk.fs.list(`${root}/step-00000003-v3-t1`)).toHaveLength(7);
  expect(disk.opened).toEqual([]);
});
