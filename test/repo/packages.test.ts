import { describe, expect, it } from "vitest";
import { checkDocumentedExports } from "./checks/documented-exports.ts";
import { checkEntryPoints } from "./checks/entry-points.ts";
import { listOf } from "./checks/finding.ts";
import { checkManifest, type Manifest } from "./checks/manifests.ts";
import { has, packageNames, repositoryFiles, root, textOf } from "./checks/repository.ts";

const readmeLinesMax = 60;

describe.each(packageNames)("the package %s", (name) => {
  it("has a manifest of the common form", () => {
    const path = `packages/${name}/package.json`;
    const manifest: Manifest = JSON.parse(textOf(path));
    expect(manifest.name).toBe(`@muster/${name}`);
    expect(listOf(checkManifest(path, manifest))).toEqual([]);
  });

  it(`has a README of at most ${readmeLinesMax} lines`, () => {
    expect(textOf(`packages/${name}/README.md`).trimEnd().split("\n").length).toBeLessThanOrEqual(readmeLinesMax);
  });
});

describe("the entry points of all packages", () => {
  const entryPoints = packageNames
    .flatMap((name) => ["index.ts", "internal.ts"].map((file) => `packages/${name}/src/${file}`))
    .filter(has);

  it("document everything that they export", () => {
    expect(entryPoints.length).toBeGreaterThanOrEqual(packageNames.length);
    expect(listOf(checkDocumentedExports(root, entryPoints))).toEqual([]);
  });

  it("show in front only what somebody needs at work", () => {
    const files = repositoryFiles().filter((file) => /\.(?:tsx?|mjs|md)$/.test(file));
    expect(listOf(checkEntryPoints(files.map((file) => ({ file, text: textOf(file) }))))).toEqual([]);
  });
});
