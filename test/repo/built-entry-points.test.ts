/** Scripts and programs of tests that run without a compiler import what is built, where no type check looks. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Names that a file imports from the doors of packages, as they are built. */
function importsOf(file: string): readonly { readonly door: string; readonly names: readonly string[] }[] {
  const text = readFileSync(resolve(root, file), "utf8");
  return [...text.matchAll(/import \{([^}]*)\} from "(\.[^"]*\/dist\/(?:\w+\/)?(?:index|internal)\.js)"/g)].map(
    ([, names = "", door = ""]) => ({
      door: resolve(root, file, "..", door),
      names: names.split(",").flatMap((name) => name.trim().split(" as ")[0] || []),
    }),
  );
}

/** What each of the doors has, asked of a process without a compiler. */
function namesIn(doors: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const program = `const found = {};
    for (const door of ${JSON.stringify(doors)}) found[door] = Object.keys(await import(door));
    console.log(JSON.stringify(found));`;
  return JSON.parse(execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" }));
}

describe("plain JavaScript", () => {
  const listed = ["ls-files", "packages/*.mjs", "scripts/*.mjs", "bench/*.mjs"];
  const files = execFileSync("git", listed, { cwd: root, encoding: "utf8" }).split("\n").filter(Boolean);
  const imports = files.flatMap((file) => importsOf(file).map((each) => ({ file, ...each })));
  const built = namesIn([...new Set(imports.map(({ door }) => door))]);

  it.each(imports)("$file imports what the doors of packages have", ({ door, names }) => {
    expect(built[door]).toEqual(expect.arrayContaining([...names]));
  });
});
