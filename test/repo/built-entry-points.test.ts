/** Scripts and programs of tests that run without a compiler import what is built, where no type check looks. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Names that a file imports from the entry points of packages, as they are built. */
function importsOf(file: string): readonly { readonly entryPoint: string; readonly names: readonly string[] }[] {
  const text = readFileSync(resolve(root, file), "utf8");
  return [...text.matchAll(/import \{([^}]*)\} from "(\.[^"]*\/dist\/(?:\w+\/)?(?:index|internal)\.js)"/g)].map(
    ([, names = "", entryPoint = ""]) => ({
      entryPoint: resolve(root, file, "..", entryPoint),
      names: names.split(",").flatMap((name) => name.trim().split(" as ")[0] || []),
    }),
  );
}

/** What each of the entry points has, asked of a process without a compiler. */
function namesIn(entryPoints: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const program = `const found = {};
    for (const entryPoint of ${JSON.stringify(entryPoints)}) found[entryPoint] = Object.keys(await import(entryPoint));
    console.log(JSON.stringify(found));`;
  return JSON.parse(execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" }));
}

describe("plain JavaScript", () => {
  const listed = ["ls-files", "packages/*.mjs", "scripts/*.mjs", "bench/*.mjs"];
  const files = execFileSync("git", listed, { cwd: root, encoding: "utf8" }).split("\n").filter(Boolean);
  const imports = files.flatMap((file) => importsOf(file).map((each) => ({ file, ...each })));
  const built = namesIn([...new Set(imports.map(({ entryPoint }) => entryPoint))]);

  it.each(imports)("$file imports what the entry points of packages have", ({ entryPoint, names }) => {
    expect(built[entryPoint]).toEqual(expect.arrayContaining([...names]));
  });
});
