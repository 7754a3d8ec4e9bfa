/** What is written of a version, and when two are the same one. */
import { describe, expect, it } from "vitest";
import { checkNumbers, isSameState, isSameVersion, planFiles } from "../src/content.ts";
import { type CheckpointContent, openCheckpointStore } from "../src/index.ts";
import type { CheckpointManifest } from "../src/manifest.ts";
import { contentOf } from "./content.ts";
import { MemoryDisk } from "./disk.ts";

describe("the files of a version", () => {
  it("are its configuration, its weights, and its optimizer where it has one", () => {
    const names = (content: CheckpointContent) => planFiles(content).map(({ name }) => name);
    const all = contentOf(1);
    expect(names(all)).toEqual(["config.json", "model.safetensors", "optimizer.safetensors"]);
    expect(names({ ...all, sections: all.sections.toReversed() })).toEqual(names(all));
    expect(names({ ...all, sections: all.sections.slice(0, 1) })).toEqual(["config.json", "model.safetensors"]);
  });

  it("have a configuration of at most 1 MiB as JSON", () => {
    const withText = (length: number) => planFiles(contentOf(1, { modelConfig: { a: "x".repeat(length - 13) } }));
    const [config] = withText(1024 * 1024);
    expect(config?.parts[0]?.length).toBe(1024 * 1024 + 1);
    expect(() => withText(1024 * 1024 + 1)).toThrow(/at most 1 MiB/);
  });

  it.each([
    ["lineage", Number.MAX_SAFE_INTEGER],
    ["step", 99_999_999],
    ["version", 9_999_999_999],
    ["term", 9_999_999_999],
  ] as const)("have a %s from 0 to %i in their name", (field, most) => {
    for (const value of [0, most]) expect(() => checkNumbers(contentOf(1, { [field]: value }))).not.toThrow();
    for (const value of [-1, most + 1, 0.5, Number.NaN])
      expect(() => checkNumbers(contentOf(1, { [field]: value }))).toThrow(`${field} is ${value}`);
  });
});

describe("a checkpoint", () => {
  const content = contentOf(3);
  const manifest = {
    ...content,
    sections: content.sections.map(({ name, digest, bytes }) => ({ name, bytes: bytes.length, digest })),
  } as unknown as CheckpointManifest;

  it("holds a version when job, lineage, step, version and every section are the same, whichever term wrote it", () => {
    expect([isSameState(manifest, content), isSameVersion(manifest, content)]).toEqual([true, true]);
    expect(isSameState(manifest, { ...content, sections: content.sections.toReversed() })).toBe(true);
    const later = { ...content, term: 2 };
    expect([isSameState(manifest, later), isSameVersion(manifest, later)]).toEqual([true, false]);
    const [weights, optimizer] = content.sections;
    if (!weights || !optimizer) throw new Error("a content has both sections");
    for (const change of [
      ...[{ job: "other" }, { lineage: 1 }, { step: 4 }, { version: 4 }, { sections: [weights] }],
      { sections: [weights, { ...optimizer, digest: "other" }] },
      { sections: [{ ...weights, bytes: new Uint8Array(41) }, optimizer] },
    ])
      expect([change, isSameState(manifest, { ...content, ...change })]).toEqual([change, false]);
  });
});

it("a store keeps one checkpoint at least, and a whole number of them", async () => {
  const open = (keep: number) => {
    const disk = new MemoryDisk();
    return openCheckpointStore({
      root: "/c",
      keep,
      fs: { ...disk.fs, prepareRoot: async (path) => path },
      now: () => new Date(0),
    });
  };
  await expect(open(1)).resolves.toBeDefined();
  for (const keep of [0, -1, 1.5, Number.NaN])
    await expect(open(keep)).rejects.toMatchObject({ code: "MUSTER_ERR_CHECKPOINT_OPTION_INVALID" });
});
