import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bashScript } from "../src/completion/bash.ts";
import { commandsOf, treeOf } from "../src/completion/command-tree.ts";
import { fishScript } from "../src/completion/fish.ts";
import { zshScript } from "../src/completion/zsh.ts";
import { createProgram } from "../src/program.ts";

const tree = treeOf(await createProgram());

describe("completion in bash", () => {
  let directory: TempDirectory;

  beforeAll(async () => {
    directory = await makeTempDirectory();
    for (const job of ["dates-1", "dates-2", "$(touch hacked)", "`touch hacked`"]) {
      mkdirSync(join(directory.path, "runs", job), { recursive: true });
      writeFileSync(join(directory.path, "runs", job, "connection.json"), "{}");
    }
    mkdirSync(join(directory.path, "runs", "no-connection"));
    writeFileSync(join(directory.path, "my.toml"), "");
    writeFileSync(join(directory.path, "completion.bash"), bashScript(tree));
  });
  afterAll(() => directory.remove());

  it.each([
    ["muster sta", ["status"]],
    ["muster con", ["controller", "config"]],
    ["muster config ", ["print", "check", "help", "--help"]],
    ["muster config print --e", ["--explain"]],
    ["muster config check my", ["my.toml"]],
    ["muster run --mode ", ["sync", "async"]],
    ["muster run --seed ", []],
    ["muster completion ", ["bash", "zsh", "fish", "--help"]],
    ["muster status --job dates-1 --wa", ["--watch"]],
    ["muster jobs --runs r", ["runs"]],
  ])("%s", (line, words) => {
    expect(complete(line)).toEqual(words);
  });

  it("offers jobs by their folders, and runs nothing that a folder is named", () => {
    expect(complete("muster status --job ")).toEqual(["dates-1", "dates-2"]);
    expect(existsSync(join(directory.path, "hacked"))).toBe(false);
  });

  function complete(line: string): readonly string[] {
    const words = line.split(" ").map((word) => `'${word}'`);
    const script = `source ./completion.bash; COMP_WORDS=(${words.join(" ")}); COMP_CWORD=${words.length - 1}; _muster; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const text = execFileSync("bash", ["-euc", script], { cwd: directory.path, encoding: "utf8" });
    return text.split("\n").filter(Boolean);
  }
});

describe.each([
  ["bash", bashScript(tree), (long: string) => long],
  ["zsh", zshScript(tree), (long: string) => `'${long}:`],
  ["fish", fishScript(tree), (long: string) => `-l ${long.slice(2)} `],
])("the script for %s", (_, script, shown) => {
  it("knows every command and every option", () => {
    for (const { path, options } of commandsOf(tree)) {
      expect(script).toContain(path.at(-1));
      for (const { long } of options) expect(script).toContain(shown(long));
    }
  });
});
