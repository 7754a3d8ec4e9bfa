/**
 * A task of a module is tried before anything starts, and its contract is typed for files that lie anywhere.
 *
 * The file takes about 20 s: each faulty task is one run of `muster config check`, as a user types it, which imports the module in a child process of its
 * own; one of them has to pass its deadline of five seconds, and the typed contract takes one run of the TypeScript compiler.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { buildOnce, muster } from "./support/muster.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const root = fileURLToPath(new URL("../../../", import.meta.url));
const example = join(root, "examples/own-task");

let directory: TempDirectory;
beforeAll(async () => {
  buildOnce();
  directory = await makeTempDirectory();
  copyFileSync(join(example, "job.toml"), join(directory.path, "job.toml"));
});
afterAll(() => directory.remove());

/** Checks the example with another module. */
function check(change: (text: string) => string, ...set: readonly string[]) {
  const path = join(directory.path, "task.mjs");
  writeFileSync(path, change(readFileSync(join(example, "task.mjs"), "utf8")));
  const args = set.flatMap((each) => ["--set", each]);
  return { path, ...muster(["config", "check", join(directory.path, "job.toml"), ...args]) };
}

it.each([
  [
    "that counts its calls",
    (text: string) => `let n = 0;\n${text}`.replace("random.below(10), random", "n++ % 10, random"),
    /task\.mjs:\d+: trainPrompt of step \d+, index \d+ returned another prompt when it was asked again/,
  ],
  [
    "whose prompt is no text",
    (text: string) => text.replace(/`[^`]+=`/, "a"),
    /task\.mjs:17: trainPrompt of step 1, index 0 returned prompt = \d; it must be text/,
  ],
  [
    "without maxPromptTokens",
    (text: string) => text.replace("maxPromptTokens: 4,", ""),
    /task\.mjs: maxPromptTokens is nothing \(undefined\); it must be a whole number from 1 to/,
  ],
  [
    "that ends the process",
    (text: string) => text.replace("=> draw(random, false)", "=> process.exit(3)"),
    /asking .*task\.mjs for prompts ended the process with exit code 3/,
  ],
  [
    "that never ends",
    (text: string) => text.replace("=> draw(random, false)", "=> new Promise(() => {})"),
    /task\.mjs:17: trainPrompt of step 1, index 0 did not end within 5000 ms/,
  ],
  [
    "with a field that no task has",
    (text: string) => text.replace("  reward({", "  rewards({"),
    /task\.mjs:\d+: rewards is a value of type function; it must be left out/,
  ],
])("a task %s is refused in one sentence, by the key that names it", (_, change, says) => {
  const { code, stderr } = check(change);
  expect(code).toBe(2);
  expect(stderr).toMatch(/job\.toml:\d+: task\.name = "\.\/task\.mjs": /);
  expect(stderr).toMatch(says);
  expect(stderr.trim().split("\n")).toHaveLength(2);
});

it("a task in TypeScript is taken where Node strips types, and elsewhere refused with what to do", () => {
  const typed = readFileSync(join(example, "task.mjs"), "utf8").replace(
    "(a, b) => (a + 3 * b)",
    "(a: number, b: number) => (a + 3 * b)",
  );
  writeFileSync(join(directory.path, "task.ts"), typed);
  const job = readFileSync(join(example, "job.toml"), "utf8").replace("./task.mjs", "./task.ts");
  writeFileSync(join(directory.path, "typed.toml"), job);
  const { code, stdout, stderr } = muster(["config", "check", join(directory.path, "typed.toml")]);
  if ((process.features as { readonly typescript?: unknown }).typescript) {
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/typed\.toml is sound: .*task\.ts/);
  } else {
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /typed\.toml:\d+: task\.name = "\.\/task\.ts": .* Node \S+ does not read TypeScript; use Node 22\.18 or newer, or a \.mjs file/,
    );
  }
});

it("a task that lacks what the job asks of it is refused by the keys that ask", () => {
  const { stderr } = check((text) =>
    text.replace("evalPrompt:", "// evalPrompt:").replace(/ {2}reward\([\s\S]*? {2}},\n/, ""),
  );
  expect(stderr).toMatch(/evaluation\.prompts = 64: .*task\.mjs has no evalPrompt; give its task one/);
  expect(stderr).toMatch(/task\.reward is missing: .*task\.mjs has no reward; give its task one, or set task\.reward/);
});

it("what `muster types` prints types a module outside of the repository, and finds its faults", () => {
  const types = muster(["types"]);
  expect(types.stderr).toBe("");
  expect(types.stdout).not.toMatch(/^import /m);
  const at = (name: string) => join(directory.path, name);
  writeFileSync(at("muster.d.ts"), types.stdout);
  writeFileSync(at("task.mjs"), readFileSync(join(example, "task.mjs"), "utf8"));
  writeFileSync(
    at("mine.ts"),
    `import type { GenerateModule, RewardFunction, TaskModule } from "./muster.d.ts";
export const generate: GenerateModule = async ({ engine, prompt, random, sampling }) => {
  const temperature = sampling.temperature + random.next() / 10;
  return await engine.generate({ promptIds: prompt.ids, sampling: { temperature } }).then(({ responseIds, logprobs }) => ({ responseIds, logprobs }));
};
export const reward: RewardFunction = ({ prompt, responseText }) => (prompt.row?.hard === true && responseText === prompt.answer ? 1 : 0);
export const task = { vocabulary: "$ab", maxPromptTokens: 2, trainPrompt: ({ position }) => ({ prompt: "ab"[position % 2] ?? "a", hard: true }) } satisfies TaskModule;
`,
  );
  writeFileSync(
    at("wrong.ts"),
    `import type { TaskModule } from "./muster.d.ts";
export const task = { vocabulary: "$ab", maxPromptTokens: "2", trainPrompt: ({ place }) => ({ question: "a" }) } satisfies TaskModule;
`,
  );
  const faults = typecheck("mine.ts", "task.mjs", "wrong.ts").trim().split("\n");
  expect(faults.filter((fault) => !/^(wrong\.ts| )/.test(fault))).toEqual([]);
  expect(faults.join("\n")).toContain("Type 'string' is not assignable to type 'number'");
  expect(faults.join("\n")).toContain("Property 'place' does not exist on type 'TrainPromptKey'");
});

/** What the compiler finds in files of the folder. */
function typecheck(...files: readonly string[]): string {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const compilerOptions = {
    ...{ noEmit: true, strict: true, allowJs: true, checkJs: true, target: "es2023", module: "nodenext", types: [] },
    // Helpers of a plain JavaScript file say no types; and the compiler's own libraries are not in question.
    ...{ noImplicitAny: false, skipDefaultLibCheck: true },
  };
  writeFileSync(join(directory.path, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  return spawnSync(process.execPath, [tsc, "-p", "."], { cwd: directory.path, encoding: "utf8" }).stdout;
}
