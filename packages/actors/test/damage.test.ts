/** What a trainer says of a folder that it could not restore: which copy it read decides whose checkpoint is damaged. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CheckpointContent, loadCheckpoint, openCheckpointStore } from "@muster/checkpoint";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { damageOf } from "../src/policy/damage.ts";

const content: CheckpointContent = {
  ...{ job: "j", lineage: 0, step: 4, version: 4, term: 1, engineBuild: "b", groupsWatermark: 0 },
  sections: [{ name: "weights", digest: "d", bytes: new Uint8Array([1, 2, 3, 4]) }],
  tensors: [{ name: "w", dtype: "f32", shape: [1], offsetBytes: 0, sizeBytes: 4 }],
  modelConfig: { model_type: "llama" },
  ledger: { admitted: 1, trained: 1, aborted: 0, quarantined: 0 },
};

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "muster-damage-"));
});
afterEach(() => rm(root, { recursive: true }));

/** A checkpoint of which one file is changed afterwards, and what is said of it to whoever was told these manifests. */
async function damaged(file: string, told: (digest: string) => string[] | undefined) {
  const store = await openCheckpointStore({ root, keep: 1, now: () => new Date(0) });
  const { path, manifestDigest } = await store.save(content, new AbortController().signal);
  const bytes = await readFile(join(path, file));
  bytes[bytes.length - 2] = (bytes.at(-2) ?? 0) ^ 1;
  await writeFile(join(path, file), bytes);
  const error = await loadCheckpoint(path).catch((thrown: unknown) => thrown);
  const manifestDigests = told(manifestDigest);
  const source = { kind: "checkpoint", path, ...(manifestDigests ? { manifestDigests } : {}) } as const;
  return { ...damageOf(error, source), manifestDigest };
}

describe("a checkpoint with a changed byte", () => {
  const reason = "model.safetensors does not have the sha-256 of the manifest";

  it("is damaged, and the report names the copy by its manifest", async () => {
    const { damage, manifestDigest } = await damaged("model.safetensors", (digest) => ["other", digest]);
    expect(damage).toEqual({ kind: "corrupt", reason, manifestDigest });
  });

  it("is not the one that was asked for when its manifest is another one: that one is gone from here", async () => {
    const { damage } = await damaged("model.safetensors", () => ["other"]);
    expect(damage).toEqual({ kind: "gone", reason: "its manifest is not the one that was reported durable" });
  });

  it("is named by its manifest also to a controller that asked for no particular one", async () => {
    const { damage, manifestDigest } = await damaged("model.safetensors", () => undefined);
    expect(damage).toEqual({ kind: "corrupt", reason, manifestDigest });
  });

  it("in its manifest is damaged, and nobody can say which copy it was", async () => {
    const { damage } = await damaged("manifest.json", (digest) => [digest]);
    expect(damage).toEqual({ kind: "corrupt", reason: expect.stringMatching(/^checkpoint manifest refused: /) });
  });
});
