import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildOnce, muster } from "./support/muster.ts";

describe("what a job brings along is tried before anything starts:", { timeout: 60_000 }, () => {
  let directory: TempDirectory;
  beforeAll(async () => {
    buildOnce();
    directory = await makeTempDirectory();
  }, 120_000);
  afterAll(() => directory.remove());

  let modules = 0;
  const check = (key: string, text: string) => {
    const path = join(directory.path, `module-${modules++}.mjs`);
    writeFileSync(path, text);
    return { path, ...muster(["config", "check", "jobs/dates.toml", "--set", `${key}=${path}`]) };
  };

  it.each([
    ["that throws at import", '\n\nthrow new Error("no key");', ":3 can not be loaded: no key"],
    ["with a syntax error", "export const x = ;", " can not be loaded: Unexpected token ';'"],
    ["without the export", "export const other = 1;", " exports undefined where a function is wanted"],
    ["that ends the process", "process.exit(3);", " ended the process with exit code 3"],
    [
      "that imports what is not there",
      'import "nowhere-at-all";',
      " can not be loaded: Cannot find package 'nowhere-at-all'",
    ],
  ])("a reward %s is refused in one sentence", (_, text, says) => {
    const { code, stderr, path } = check("task.reward", text);
    expect(code).toBe(2);
    expect(stderr).toContain(`task.reward = "${path}": `);
    expect(stderr).toContain(`${path}${says}`);
    expect(stderr.trim().split("\n")).toHaveLength(2);
  });

  it("a generate function is held to the same, and what a sound module prints is not in the way", () => {
    expect(check("rollout.generate", "export default 7;").stderr).toContain(
      "exports number where a function is wanted",
    );
    const sound = check("rollout.generate", 'console.log("hello"); export default async () => null;');
    expect([sound.code, sound.stdout]).toEqual([0, "jobs/dates.toml is sound: job dates, 250 steps of dates\n"]);
  });

  it("weights of a folder without a model are refused", () => {
    const { code, stderr } = muster([
      "config",
      "check",
      "jobs/dates.toml",
      "--set",
      `weights.source=folder:${directory.path}`,
    ]);
    expect(code).toBe(2);
    expect(stderr).toContain(`weights.source = "folder:${directory.path}": model folder ${directory.path} refused`);
  });
});
