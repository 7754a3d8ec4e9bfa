import { expect, it } from "vitest";
import { type CheckpointManifest, decodeManifest, encodeManifest } from "../src/manifest.ts";

const manifest: CheckpointManifest = {
  ...{ format: 1, job: "j", lineage: 0, step: 3, version: 3, term: 1 },
  sections: [{ name: "weights", bytes: 4, digest: "d" }],
  files: [
    { name: "config.json", bytes: 2, sha256: "0".repeat(64) },
    { name: "model.safetensors", bytes: 9, sha256: "1".repeat(64) },
  ],
  ledger: { admitted: 1, trained: 1, aborted: 0, quarantined: 0 },
  ...{ groupsWatermark: 0, engineBuild: "b", createdAt: "2026-01-02T12:00:00.000Z" },
};

it("a manifest is read as it was rendered", () => {
  expect(decodeManifest(encodeManifest(manifest))).toEqual(manifest);
});

it("a mark before the first byte of one is a byte that was not rendered", () => {
  const bytes = encodeManifest(manifest);
  expect(() => decodeManifest(Uint8Array.from([0xef, 0xbb, 0xbf, ...bytes]))).toThrow(/manifest/i);
});

it("more sections than there are kinds of are refused before their names are said again", () => {
  const [section] = manifest.sections;
  if (!section) throw new Error("there is a section");
  expect(() => encodeManifest({ ...manifest, sections: [section, section, section] })).toThrow(/: sections: /);
});

it("what is wrong with one is said in bounded words, however much is wrong", () => {
  const rendered = JSON.parse(new TextDecoder().decode(encodeManifest(manifest)));
  const more = new TextEncoder().encode(JSON.stringify({ ...rendered, ["x".repeat(9_000)]: 1 }));
  expect(() => decodeManifest(more)).toThrow(/x{20}/);
  expect(() => decodeManifest(more)).toThrow(/^.{1,600}$/s);
});
