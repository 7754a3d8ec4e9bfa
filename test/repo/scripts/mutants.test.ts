/** The tool that changes one small thing at a time: what it changes, that each change can be chosen at run time, and what it says of a tiny project. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { runInNewContext } from "node:vm";
import { afterAll, describe, expect, it } from "vitest";
import { mutantsIn } from "../../../scripts/lib/mutants/mutants-in.mjs";
import { switched } from "../../../scripts/lib/mutants/switched.mjs";
import { root } from "../checks/repository.ts";

describe("small changes of a module", () => {
  it.each([
    ["a comparison is moved by one", "x = a < b", ["< -> <="]],
    ["a comparison of times is turned round", "x = a < waitMs", ["< -> >="]],
    ["a comparison with a chosen size is turned round", "x = a <= 64", ["<= -> >", "64 -> (64 * 10)"]],
    ["an equality becomes its opposite", "x = a === b", ["=== -> !=="]],
    ["a condition is negated", "if (a) b();", ["a -> !(a)", "b(); -> nothing"]],
    ["a negation is taken away", "x = !a", ["!a -> a"]],
    ["a small number is one more, and a large one ten times", "x = 9; y = 10", ["9 -> (9 + 1)", "10 -> (10 * 10)"]],
    ["a truth becomes its opposite", "x = [true, false]", ["true -> false", "false -> true"]],
    ["a call is left out, also one that is waited for", "f(); await g()", ["f(); -> nothing", "await g() -> nothing"]],
    ["types, imports and lines of the log are left as they are", 'import "x"; let n: 3; logger.warn("no")', []],
    ["sentences are, and the numbers in them", "x = `it took $" + "{a ? 1 : 2} tries`", []],
    ["bounds of a histogram are", "x = [1, 2, 5, 10, 20]", []],
    ["what stands for nothing yet is", "let last = -1", []],
    [
      "a line is where a reason says that nobody could see it",
      "// no mutant: a sample\nx = 1; y = 2\nz = 3",
      ["3 -> (3 + 1)"],
    ],
  ])("%s", (_, source, expected) => {
    expect(mutantsIn("a.ts", source).map(({ what }) => what)).toEqual(expected);
  });

  it("are all in one module, each behind its number, and without one of them it is as it was", () => {
    const source = "said = []; if (!(a < 3) && b) { say(1); } said";
    const mutants = mutantsIn("a.ts", source);
    const code = switched("a.ts", source, mutants, 40);
    const outcome = (active: number) => {
      const said: number[] = [];
      const globals = { mutants: { isOn: (number: number) => number === active, hasLoaded: () => {} } };
      runInNewContext(code, { ...globals, a: 3, b: true, said, say: (n: number) => said.push(n) });
      return said.join();
    };
    expect(outcome(-1)).toBe("1");
    expect(mutants.map(({ what }, i) => [what, outcome(40 + i)])).toEqual([
      ["!(a < 3) && b -> !(!(a < 3) && b)", ""],
      ["&& -> ||", "1"],
      ["!(a < 3) -> (a < 3)", ""],
      ["< -> <=", ""],
      ["3 -> (3 + 1)", ""],
      ["say(1); -> nothing", ""],
      ["1 -> (1 + 1)", "2"],
    ]);
  });
});

const source = `
/** Most that may wait. */
export const waitingMax = 3;
/** Nobody asks for it. */
export const waitMs = 50;

export const isFull = (waiting: number): boolean => waiting >= waitingMax;

export const larger = (a: number, b: number): number => (a > b ? a : b);

export function roundsUntil(enough: number): number {
  let rounds = 0;
  for (;;) {
    if (rounds >= enough) return rounds;
    rounds += 1;
  }
}

export const isSound = (isWell: boolean): boolean => isWell || process.kill(process.pid, "SIGKILL");
`;
const test = `
import { expect, it } from "vitest";
import { isFull, larger, roundsUntil, isSound } from "../src/queue.ts";

it("is sound", () => expect(isSound(true)).toBe(true));
it("is full with three", () => expect([2, 3].map(isFull)).toEqual([false, true]));
it("finds the larger one", () => expect([larger(1, 2), larger(2, 1), larger(2, 2)]).toEqual([2, 2, 2]));
it("needs no round for nothing", () => expect(roundsUntil(0)).toBe(0));
`;

describe("a tiny project", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "muster-mutants-test-")));
  afterAll(() => rmSync(folder, { recursive: true }));
  for (const path of ["scripts/mutants.mjs", "scripts/lib/mutants", "vitest.config.ts", "package.json"])
    cpSync(join(root, path), join(folder, path), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  for (const path of ["machines/src", "machines/test", "checkpoint/src", "checkpoint/test", "actors/src/controller"])
    mkdirSync(join(folder, "packages", path), { recursive: true });
  const write = (path: string, text: string) => writeFileSync(join(folder, "packages/machines", path), text);
  write("src/queue.ts", source);
  write("test/queue.test.ts", test);
  const run = (...options: string[]) => {
    const { stdout, stderr, status } = spawnSync(process.execPath, ["scripts/mutants.mjs", ...options], {
      cwd: folder,
      encoding: "utf8",
      timeout: 50_000,
      env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, NO_COLOR: "1" },
    });
    return { lines: stdout.trim().split("\n"), stderr, status };
  };
  const lost = [
    "SURVIVED packages/machines/src/queue.ts:5 50 -> (50 * 10)",
    "SURVIVED packages/machines/src/queue.ts:9 > -> >=",
    "UNMET    packages/machines/src/queue.ts:15 1 -> (1 + 1)",
    "NO ANSWER packages/machines/src/queue.ts:19 || -> &&",
  ];
  const lostIn = (lines: string[]) => lines.filter((line) => /^(SURVIVED|UNMET|NO ANSWER)/.test(line));

  it("counts a change that a test detects, also one that is there from the first import on; names what survives, what no test meets, and what ends its process", () => {
    const { lines, stderr, status } = run("--all");
    expect(lines[0], stderr).toBe("9 of 9 mutants");
    expect(lostIn(lines)).toEqual(lost);
    expect(lines.at(-1)).toBe("5 passed, 3 failed, 1 without an answer");
    expect(status).toBe(1);
  });

  it("is not asked again about what a test has detected, as long as the module and the test are the same", () => {
    const { lines } = run("--all", "--only", "queue.ts:7");
    expect(lines.slice(0, 2)).toEqual(["1 of 1 mutants", "detected before, and not tried again: 1"]);
    expect(lines.at(-1)).toBe("1 passed, 0 failed");
  });

  it("is not tried with an option that means nothing", () => {
    const { stderr, status } = run("--within", "soon");
    expect(stderr).toBe("--within is soon; it must be a number above 0; --help lists the options\n");
    expect(status).toBe(2);
  });
});
