/** What a program starts carries its mark, whatever it does to its environment. */
import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { afterAll, describe, expect, it, vi } from "vitest";
import { isOfLife, keptLimitOf, lifeLimitOf, lifeWords } from "../src/programs/kept-limit.ts";
import { numbersIn, textOf } from "../src/programs/proc-files.ts";
import { endMarked, ProcessMark } from "../src/programs/process-mark.ts";

/** In the command line of what these tests start. */
const name = randomUUID();
const named = (): readonly number[] =>
  numbersIn("/proc").filter((pid) => textOf(`/proc/${pid}/cmdline`).includes(name));
afterAll(() => {
  for (const pid of named()) process.kill(pid, "SIGKILL");
});

/** A child of nobody, in a session of its own with an empty environment. */
const bare = `env -i setsid -f sh -c ': ${name}; while :; do sleep 1; done'`;

const canKeep = new ProcessMark().words(["true"]).length > 1;

describe("what a program started", () => {
  it("ends with it, also when it was killed and what it started has no parent, session or variable of it", async (context) => {
    context.skip(!canKeep, "this host can not set the limit");
    const [mark, other] = [new ProcessMark(), new ProcessMark()];
    for (const one of [mark, other]) {
      const [program = "", ...args] = one.words(["sh", "-c", `${bare}; kill -9 $$`]);
      await once(spawn(program, args, { stdio: "ignore", env: { PATH: process.env.PATH, ...one.env } }), "exit");
    }
    await vi.waitUntil(() => named().length === 2, { timeout: 5_000 });
    expect(endMarked(mark)).toBeGreaterThanOrEqual(1);
    await vi.waitUntil(() => named().length === 1, { timeout: 5_000 });
    endMarked(other);
    await vi.waitUntil(() => named().length === 0, { timeout: 5_000 });
  });
});

describe("the limit of a life", () => {
  const life = randomUUID();

  it("is kept by what its process starts, and below it are those of its programs", (context) => {
    context.skip(!canKeep, "this host can not set the limit");
    const [program = "", ...args] = lifeWords(life, [
      process.execPath,
      "--input-type=module",
      "--eval",
      `import { ProcessMark } from ${JSON.stringify(new URL("../dist/programs/process-mark.js", import.meta.url).href)};
      import { keptLimitOf } from ${JSON.stringify(new URL("../dist/programs/kept-limit.js", import.meta.url).href)};
      console.log(String([keptLimitOf("self"), new ProcessMark().limit, new ProcessMark().limit]));`,
    ]);
    const { stdout } = spawnSync(program, args, { encoding: "utf8" });
    const [own, first, second] = stdout.trim().split(",").map(BigInt);
    expect(own).toBe(lifeLimitOf(life));
    expect(new Set([own, first, second]).size).toBe(3);
    for (const limit of [own, first, second]) expect(isOfLife(limit ?? null, life)).toBe(true);
    for (const limit of [own, first, second]) expect(isOfLife(limit ?? null, randomUUID())).toBe(false);
  });

  it("is none where nobody set one", () => {
    expect(keptLimitOf("self")).toBe(null);
    expect(isOfLife(null, life)).toBe(false);
  });
});
