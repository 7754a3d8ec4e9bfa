import { createHash } from "node:crypto";
import { shardsMax } from "@muster/protocol";
import { expect, it } from "vitest";
import { type CheckpointManifest, decodeManifest, encodeManifest, manifestBytesMax } from "../src/manifest.ts";

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

const digit = "0".repeat(64);
const cursor = { seed: 0, nextStep: 1, nextPrompt: 0, groupsPerStep: 1, groupSize: 1, data: "d" };
const [section] = manifest.sections;
const file = { name: "config.json", bytes: 0, sha256: digit };

/** With so many changes of the batch. */
function withSizes(count: number, patch: object = {}): object {
  return { cursor: { ...cursor, sizes: Array(count).fill({ fromStep: 1, groupsPerStep: 1, ...patch }) } };
}

/** Per field the values at its bounds, and those just beyond them. */
const bounds: [field: string, inside: readonly object[], beyond: readonly object[]][] = [
  ["step", [{ step: 0 }, { step: 99_999_999 }], [{ step: -1 }, { step: 1.5 }, { step: 100_000_000 }]],
  ["version", [{ version: 0 }, { version: 9_999_999_999 }], [{ version: -1 }, { version: 10_000_000_000 }]],
  ["term", [{ term: 0 }, { term: 9_999_999_999 }], [{ term: -1 }, { term: 10_000_000_000 }]],
  ["lineage", [{ lineage: 0 }, { lineage: 2 ** 53 - 1 }], [{ lineage: -1 }, { lineage: 2 ** 53 }]],
  [
    "sections",
    [{ sections: [{ ...section, digest: "d".repeat(128) }] }],
    [
      { sections: [] },
      { sections: [{ ...section, digest: "" }] },
      { sections: [{ ...section, digest: "d".repeat(129) }] },
    ],
  ],
  ["files", [], [{ files: [file] }, { files: [file, file, file, file] }, { files: [] }]],
  ["engineBuild", [{ engineBuild: "" }, { engineBuild: "b".repeat(256) }], [{ engineBuild: "b".repeat(257) }]],
  [
    "cursor",
    [{ cursor }, { cursor: { ...cursor, data: "d".repeat(256) } }],
    [{ cursor: { ...cursor, data: "" } }, { cursor: { ...cursor, data: "d".repeat(257) } }],
  ],
  [
    "cursor.nextStep",
    [{ cursor: { ...cursor, nextStep: 99_999_999 } }],
    [{ cursor: { ...cursor, nextStep: 100_000_000 } }],
  ],
  [
    "cursor.sizes",
    [withSizes(1), withSizes(256)],
    [withSizes(0), withSizes(257), withSizes(1, { fromStep: 0 }), withSizes(1, { groupsPerStep: 0 })],
  ],
  ["format", [], [{ format: 0 }, { format: 4 }]],
];

/** As a program would write it that has other bounds. */
function signed(value: object): Uint8Array {
  const checksum = createHash("sha256").update(JSON.stringify(value)).digest("hex");
  return new TextEncoder().encode(`${JSON.stringify({ ...value, checksum }, null, 2)}\n`);
}

it.each(bounds)(
  "%s is taken up to its bounds and refused beyond them, in writing and in reading",
  (field, inside, beyond) => {
    for (const patch of inside) {
      const value = { ...manifest, ...patch } as CheckpointManifest;
      expect(decodeManifest(encodeManifest(value))).toEqual(value);
    }
    const [outer = ""] = field.split(".");
    for (const patch of beyond) {
      const value = { ...manifest, ...patch } as CheckpointManifest;
      expect(() => encodeManifest(value)).toThrow(outer);
      expect(() => decodeManifest(signed(value))).toThrow(outer);
    }
  },
);

it("files that do not go with its sections are refused, in writing and in reading", () => {
  const [config, model] = manifest.files as readonly { name: string; bytes: number; sha256: string }[];
  const optimizer = { name: "optimizer.safetensors", bytes: 1, sha256: digit };
  const both = { sections: [section, { ...section, name: "optimizer" }] };
  expect(decodeManifest(signed({ ...manifest, ...both, files: [config, model, optimizer] }))).toMatchObject(both);
  for (const patch of [both, { files: [config, model, optimizer] }, { files: [model, config] }]) {
    const value = { ...manifest, ...patch } as CheckpointManifest;
    expect(() => encodeManifest(value)).toThrow(/do not go with/);
    expect(() => decodeManifest(signed(value))).toThrow(/do not go with/);
  }
});

it("a set of shards has from two to as many as there may be, each with its files", () => {
  const shardsOf = (shards: number, kinds = ["model"], more: readonly string[] = []): CheckpointManifest => {
    const name = (n: number): string => String(n).padStart(5, "0");
    const [model = [], optimizer = []] = kinds.map((kind) =>
      Array.from({ length: shards }, (_, i) => `${kind}-${name(i + 1)}-of-${name(shards)}.safetensors`),
    );
    const all = ["config.json", ...model, "model.safetensors.index.json", ...optimizer, ...more];
    const sections = kinds.map((kind) => ({ ...section, name: kind === "model" ? "weights" : kind }));
    const files = all.map((name) => ({
      name,
      bytes: 1,
      sha256Tree: digit,
    }));
    return { ...manifest, format: 3, shards, sections, files } as CheckpointManifest;
  };
  for (const shards of [2, shardsMax])
    expect(decodeManifest(encodeManifest(shardsOf(shards)))).toMatchObject({ shards });
  const both = ["model", "optimizer"];
  const largest = encodeManifest(shardsOf(shardsMax, both));
  expect(decodeManifest(largest)).toMatchObject({ shards: shardsMax });
  expect(largest.length).toBeLessThan(manifestBytesMax / 2); // what it says besides is bounded
  // Refused before their names are said again.
  expect(() => encodeManifest(shardsOf(shardsMax, both, ["config.json"]))).toThrow(/: files: /);
  for (const shards of [0, 1, shardsMax + 1]) expect(() => encodeManifest(shardsOf(shards))).toThrow(/shards|files/);
});

it("more sections than there are kinds of are refused before their names are said again", () => {
  const [section] = manifest.sections;
  if (!section) throw new Error("there is a section");
  expect(() => encodeManifest({ ...manifest, sections: [section, section, section] })).toThrow(/: sections: /);
});

it("another rendering of the same values is not one", () => {
  const rendered = JSON.parse(new TextDecoder().decode(encodeManifest(manifest)));
  const dense = new TextEncoder().encode(JSON.stringify(rendered));
  expect(() => decodeManifest(dense)).toThrow(/does not match its checksum/);
});

it("what is wrong with one is said in bounded words, however much is wrong", () => {
  const rendered = JSON.parse(new TextDecoder().decode(encodeManifest(manifest)));
  const more = new TextEncoder().encode(JSON.stringify({ ...rendered, ["x".repeat(9_000)]: 1 }));
  expect(() => decodeManifest(more)).toThrow(/x{20}/);
  expect(() => decodeManifest(more)).toThrow(/^.{1,600}$/s);
  expect(() => decodeManifest(new TextEncoder().encode("x".repeat(9_000)))).toThrow(/^.{1,600}$/s);
});
