import { mkdirSync, writeFileSync } from "node:fs";
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

  it.each([
    ["that is not executable", 0o644, "#!/bin/sh\n", "is no program that can be started: chmod +x "],
    [
      "that ends at once",
      0o755,
      "#!/bin/sh\necho no torch here >&2\nexit 3\n",
      "exit code 3 before anything was asked; it said: no torch here",
    ],
    ["whose interpreter is not there", 0o755, "#!/nowhere/at/all\n", "can not be started: spawn "],
  ])("a program %s is refused as a reward in one sentence", (_, mode, text, says) => {
    const path = join(directory.path, `program-${modules++}.py`);
    writeFileSync(path, text, { mode });
    const { code, stderr } = muster(["config", "check", "jobs/dates.toml", "--set", `task.reward=${path}`]);
    expect(code).toBe(2);
    expect(stderr).toContain(`task.reward = "${path}": `);
    expect(stderr).toContain(says);
    expect(stderr.trim().split("\n")).toHaveLength(2);
  });

  it("an address with a password in it is refused, and one of another kind is", () => {
    const told = (reward: string) =>
      muster(["config", "check", "jobs/dates.toml", "--set", `task.reward=${reward}`]).stderr;
    expect(told("http://me:secret@127.0.0.1/r")).toContain("must not hold a name or password");
    expect(told("https:")).toContain("is no http address");
  });

  it("a generate function is held to the same, and what a sound module prints is not in the way", () => {
    expect(check("rollout.generate", "export default 7;").stderr).toContain(
      "exports number where a function is wanted",
    );
    const sound = check("rollout.generate", 'console.log("hello"); export default async () => null;');
    expect([sound.code, sound.stdout]).toEqual([0, "jobs/dates.toml is sound: job dates, 250 steps of dates\n"]);
  });

  it("an agent's folder that is not there is named, and not its program", () => {
    const { code, stderr } = muster([
      ...["config", "check", "examples/agent/job.toml", "--set", "rollout.agent.directory=/no/where"],
    ]);
    expect(code).toBe(2);
    expect(stderr).toContain('rollout.agent.directory = "/no/where": /no/where is no folder on this host');
    expect(stderr).not.toContain("rollout.agent.command");
  });

  it("weights that are a pickle are refused with the way out, and those of another model by what differs", () => {
    const told = (path: string, ...more: readonly string[]) =>
      muster(["config", "check", "jobs/dates.toml", "--set", `weights.source=folder:${path}`, ...more]);
    const pickles = join(directory.path, "pickles");
    mkdirSync(pickles);
    writeFileSync(join(pickles, "pytorch_model.bin"), "");
    expect(told(pickles).stderr).toMatch(/pytorch_model.bin is written as a Python pickle.*save_pretrained/);
    const other = told("jobs/warm-start/dates", "--set", "model.layers=3");
    expect(other.code).toBe(2);
    expect(other.stderr).toMatch(/weights.source = .*layers is 2; the embedded engine needs 3/);
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
