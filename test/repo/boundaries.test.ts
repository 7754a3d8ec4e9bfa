import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { cruise, type ICruiseOptions, type ICruiseResult } from "dependency-cruiser";
import extractOptions from "dependency-cruiser/config-utl/extract-depcruise-options";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageNames, root } from "./checks/repository.ts";

const options: ICruiseOptions = await extractOptions(join(root, ".dependency-cruiser.cjs"));

async function violationsIn(baseDir: string, folders: string[]): Promise<string[]> {
  const { output } = await cruise(folders, { ...options, baseDir });
  const { violations } = (output as ICruiseResult).summary;
  return violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`).sort();
}

describe("the boundaries of the repository", () => {
  it("hold for every import of packages and tests", async () => {
    expect(await violationsIn(root, ["packages", "test"])).toEqual([]);
  });

  it("name every package, so that none is without a layer", () => {
    const layered = (options.ruleSet?.forbidden ?? []).map((rule) => (rule.from as { path?: string }).path);
    for (const name of packageNames) expect(layered).toContain(`^packages/${name}/src/`);
  });
});

describe("a wrong import is reported:", () => {
  let fixture: string;
  let reported: string[];

  /** Rule, the file that breaks it, and what that file imports. */
  const wrong = [
    ["no-cycle", "packages/protocol/src/circle-a.ts", "./circle-b.ts"],
    ["resolvable", "packages/protocol/src/lost.ts", "./nowhere.ts"],
    ["source-condition", "packages/runtime/src/built.ts", "../../machines/dist/index.js"],
    ["layers", "packages/transport/src/upwards.ts", "@muster/runtime"],
    ["entry-points-only", "packages/runtime/src/side-entrance.ts", "@muster/machines/src/hidden.ts"],
    ["entry-points-only", "packages/runtime/src/second-entry-point.ts", "@muster/machines/internal"],
    ["entry-points-only", "packages/runtime/src/by-path.ts", "../../machines/src/index.ts"],
    ["engines-behind-adapters", "packages/actors/src/names-an-engine.ts", "@muster/engine/embedded"],
    ["machines-pure", "packages/machines/src/impure.ts", "node:fs"],
    ["base-zero", "packages/base/src/needy.ts", "node:path"],
    ["siblings", "packages/machines/src/neighbour.ts", "@muster/transport"],
    ["nats-one-place", "packages/runtime/src/direct-nats.ts", "@nats-io/jetstream"],
    ["native-one-place", "packages/runtime/src/direct-native.ts", "@muster/native"],
    ["xstate-one-place", "packages/runtime/src/direct-xstate.ts", "xstate"],
    ["pino-prom-one-place", "packages/runtime/src/direct-pino.ts", "pino"],
    ["no-dev-in-src", "packages/runtime/src/uses-testkit.ts", "@muster/testkit"],
  ] as const;

  /** The same libraries where they belong. */
  const right = [
    ["packages/machines/src/index.ts", "xstate"],
    ["packages/transport/src/nats/index.ts", "@nats-io/jetstream"],
    ["packages/collectives/src/index.ts", "@muster/native"],
    ["packages/runtime/src/observability/index.ts", "pino"],
    ["packages/testkit/src/index.ts", "@muster/machines/internal"],
    ["packages/runtime/src/entry-point.ts", "@muster/machines"],
    ["packages/cli/src/composition/engines.ts", "@muster/engine/embedded"],
  ] as const;

  beforeAll(async () => {
    fixture = mkdtempSync(join(tmpdir(), "muster-boundaries-"));
    for (const name of ["base", "protocol", "machines", "transport", "collectives", "engine", "runtime", "testkit"])
      writePackage(name);
    for (const name of ["xstate", "pino", "@nats-io/jetstream", "@muster/native"]) writeLibrary(name);
    write("packages/machines/src/internal.ts", "export const internal = 1;\n");
    write("packages/machines/src/hidden.ts", "export const hidden = 1;\n");
    write("packages/engine/src/embedded/index.ts", "export const adapter = 1;\n");
    write("packages/machines/dist/index.js", "export const built = 1;\n");
    write("packages/protocol/src/circle-b.ts", 'export * as a from "./circle-a.ts";\n');
    for (const [, file, target] of wrong) write(file, `import * as x from "${target}";\nexport const y = x;\n`);
    for (const [file, target] of right) write(file, `import * as x from "${target}";\nexport const y = x;\n`);
    reported = await violationsIn(fixture, ["packages"]);
  });

  afterAll(() => rmSync(fixture, { recursive: true, force: true }));

  it.each(wrong)("%s by %s", (rule, file) => {
    expect(reported.filter((line) => line.startsWith(`${rule}: ${file} `))).not.toEqual([]);
  });

  it.each(right)("while %s may import %s", (file) => {
    expect(reported.filter((line) => line.includes(` ${file} →`))).toEqual([]);
  });

  it("and a package name leads to its sources, not to dist", () => {
    expect(reported).toContain("siblings: packages/machines/src/neighbour.ts → packages/transport/src/index.ts");
  });

  function write(path: string, text: string): void {
    mkdirSync(dirname(join(fixture, path)), { recursive: true });
    writeFileSync(join(fixture, path), text);
  }

  function writePackage(name: string): void {
    const entryPoint = (file: string) => ({
      source: `./src/${file}.ts`,
      types: `./dist/${file}.d.ts`,
      default: `./dist/${file}.js`,
    });
    const exports = {
      ".": entryPoint("index"),
      "./internal": entryPoint("internal"),
      "./embedded": entryPoint("embedded/index"),
      "./src/*": "./src/*",
    };
    write(`packages/${name}/package.json`, JSON.stringify({ name: `@muster/${name}`, type: "module", exports }));
    write(`packages/${name}/src/index.ts`, "export const here = 1;\n");
    mkdirSync(join(fixture, "node_modules/@muster"), { recursive: true });
    symlinkSync(join(fixture, "packages", name), join(fixture, "node_modules/@muster", name));
  }

  function writeLibrary(name: string): void {
    write(`node_modules/${name}/package.json`, JSON.stringify({ name, version: "1.0.0", main: "index.js" }));
    write(`node_modules/${name}/index.js`, "module.exports = {};\n");
  }
});
