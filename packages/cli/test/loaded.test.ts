/** What a process of `muster` loads: each one that starts pays for it, and a job starts ten. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { Help } from "commander";
import { afterAll, beforeAll, expect, it } from "vitest";
import { commandNames, usageOf } from "../src/commands/list.ts";
import { createProgram } from "../src/program.ts";
import { buildOnce, root } from "./support/muster.ts";

const program = await createProgram();

/** Notes the address of every module that is imported. */
const hooks = `import { appendFileSync } from "node:fs";
  export async function resolve(name, context, next) {
    const found = await next(name, context);
    appendFileSync(process.env.LOADED, found.url + "\\n");
    return found;
  }`;
const asUrl = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`;
const note = asUrl(`import { register } from "node:module"; register(${JSON.stringify(asUrl(hooks))});`);

let folder: TempDirectory;
beforeAll(async () => {
  buildOnce();
  folder = await makeTempDirectory();
}, 120_000);
afterAll(() => folder.remove());

/** Names of the packages that a command imports, ours and others, and how many modules these are. */
function loadedBy(...args: readonly string[]) {
  const file = join(folder.path, args.join(""));
  const env = { ...process.env, LOADED: file };
  execFileSync(process.execPath, ["--import", note, join(root, "packages/cli/bin/muster.mjs"), ...args], { env });
  const urls = new Set(readFileSync(file, "utf8").split("\n"));
  const packages = [...urls].flatMap((url) => {
    const [, own, other] = /\/packages\/(\w+)\/dist\/|.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url) ?? [];
    return own === undefined ? (other ?? []) : `@muster/${own}`;
  });
  const folders = [...urls].flatMap(
    (url) => /\/packages\/(\w+\/dist\/\w+)\//.exec(url)?.[1]?.replace("/dist", "") ?? [],
  );
  return { modules: urls.size, packages: new Set(packages), folders: new Set(folders) };
}

it.each(["--version", "--help"])("muster %s loads no more than the list of commands", { timeout: 30_000 }, (option) => {
  const { modules, packages } = loadedBy(option);
  expect([...packages].sort()).toEqual(["@muster/base", "@muster/cli", "@muster/runtime", "commander"]);
  expect(modules).toBeLessThan(80);
});

/** Libraries for a corner: files of prompts, job files, lines for people, metrics that are served, HTTP. */
const corners = ["hyparquet", "smol-toml", "pino-pretty", "prom-client", "fastify", "undici", "@bufbuild/protobuf"];

/** What only the process of a controller needs, and who reads what it leaves. */
const controllers = ["machines/controller", "actors/controller", "actors/trajectories"];

it.each([
  ["policy", 620, controllers],
  ["node", 620, controllers],
  ["controller", 560, []],
])("muster %s loads what it works with", { timeout: 30_000 }, (command, modulesMax, others) => {
  const { modules, packages, folders } = loadedBy(command, "--help");
  expect(corners.filter((name) => packages.has(name))).toEqual([]);
  expect([...others, "runtime/config"].filter((name) => folders.has(name))).toEqual([]);
  expect(modules).toBeLessThan(modulesMax);
});

it("lists every command as its own file has it", () => {
  const help = new Help();
  const own = program.commands.map((command) => help.subcommandTerm(command));
  expect(own).toEqual(commandNames.map(usageOf));
});
