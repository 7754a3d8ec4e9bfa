import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lastWordsOf, sayLastWords } from "../src/index.ts";

let folder: Awaited<ReturnType<typeof makeTempDirectory>>;
beforeAll(async () => {
  folder = await makeTempDirectory();
});
afterAll(() => folder.remove());

const failed = { code: 1, signal: null };
const wordsIn = (text: string, exit: { code: number | null; signal: string | null } = failed, from = 0) => {
  const path = join(folder.path, "one.err");
  writeFileSync(path, text);
  return lastWordsOf(exit, { path, from }).words;
};

const uncaught = `(node:1) Warning: old
file:///srv/job/reward.mjs:3
throw new TypeError("no key");
^

TypeError: no key
    at file:///srv/job/reward.mjs:3:7
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25)

Node.js v22.0.0
`;

describe("the last words of a process", () => {
  it.each([
    ["its own last sentence", "hello\nmuster: the port is in use\nbye\n", "the port is in use"],
    ["the fault that nobody caught", uncaught, "TypeError: no key"],
    ["a system error", "Error [ERR_X]: gone\n    at x (y:1:2)\n", "Error [ERR_X]: gone"],
    [
      "what the engine of JavaScript says before its frames",
      "<--- Last few GCs --->\n\nFATAL ERROR: Reached heap limit\n----- Native stack trace -----\n\n 1: 0xb0 node::Abort() [node]\n",
      "FATAL ERROR: Reached heap limit",
    ],
    ["a bare line, when there is nothing better", "libcuda.so: no such file\n\n", "libcuda.so: no such file"],
    ["nothing", "\n", undefined],
  ])("are %s", (_, text, words) => expect(wordsIn(text)).toBe(words));

  it("are those of this life, not of the one before", () => {
    const before = "muster: the life before\n";
    expect(wordsIn(before, failed, before.length)).toBeUndefined();
    expect(wordsIn(`${before}muster: this life\n`, failed, before.length)).toBe("this life");
  });

  it.each([
    ["it ended as it should", { code: 0, signal: null }],
    ["it may start again as it is", { code: 75, signal: null }],
    ["it was killed", { code: null, signal: "SIGKILL" }],
    ["it was asked to end", { code: null, signal: "SIGTERM" }],
  ])("are none when %s", (_, exit) => expect(wordsIn("muster: something\n", exit)).toBeUndefined());

  it("are read as they were said, in one line, also at the end of a long file", () => {
    let said = "";
    sayLastWords("two\n  lines", { write: (text) => (said += text) });
    expect(wordsIn(`${"x".repeat(100_000)}\n${said}`)).toBe("two lines");
    expect(wordsIn(said, { code: null, signal: "SIGABRT" })).toBe("two lines");
  });
});
