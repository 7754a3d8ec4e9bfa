import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { examples } from "../src/commands/help.ts";
import { commandsOf, treeOf } from "../src/completion/command-tree.ts";
import { loadJobFile } from "../src/composition/job-file.ts";
import { createProgram } from "../src/program.ts";
import { buildOnce, muster, root } from "./support/muster.ts";

const program = await createProgram();

const timeout = 30_000;
let directory: TempDirectory;

beforeAll(async () => {
  buildOnce();
  directory = await makeTempDirectory();
}, 120_000);
afterAll(() => directory.remove());

describe("bad input ends with code 2, one line, and nothing on standard output:", { timeout }, () => {
  it.each([
    [
      "an unknown command",
      ["nope"],
      /^muster: unknown command 'nope' \(Did you mean node\?\) \(see muster --help\)\n$/,
    ],
    ["a command with a slip", ["statsu"], /Did you mean status\?.*see muster --help/],
    [
      "an unknown option",
      ["status", "--jso"],
      /unknown option '--jso'.*Did you mean --json\?.*see muster status --help/,
    ],
    ["an argument too many", ["status", "dates-1"], /too many arguments for 'status'/],
    ["a missing argument", ["drain"], /missing required argument 'replica-id'/],
    ["a wrong choice", ["run", "--mode", "fast"], /argument 'fast' is invalid. Allowed choices are sync, async/],
    ["a shell that has no completion", ["completion", "csh"], /'csh' is invalid .*Allowed choices are bash, zsh, fish/],
    ["an option without its value", ["status", "--job"], /option '--job <name>' argument missing/],
    ["a duration that is none", ["stop", "--timeout", "soon"], /^muster: --timeout: soon "soon" is not a duration/],
    ["an id that is none", ["drain", "Rollout 1"], /Rollout 1/],
    [
      "a job that is not there",
      ["status", "--job", "nope"],
      /^muster: no job "nope" in .*start one with: node .*muster\.mjs run/,
    ],
    [
      "a link without hosts",
      ["bench", "weights", "--link", "500"],
      /^muster: --link: 500 .*; add --hosts, or leave it out/,
    ],
    [
      "two rounds",
      ["bench", "weights", "--rounds", "1,7"],
      /^muster: --rounds: 1,7 is a list; give one .* 1 to 1000\n$/,
    ],
    ["two hosts", ["bench", "weights", "--hosts", "2,9"], /^muster: --hosts: 2,9 is a list; give one .* 2 to 64\n$/],
    ["two links", ["bench", "weights", "--hosts", "--link", "1000,5"], /^muster: --link: 1000,5 is a list; give one /],
    [
      "files of a folder that is none",
      ["trajectories", "import", "/nowhere"],
      /^muster: folder "\/nowhere" can not be used/,
    ],
    [
      "a folder that is a file",
      ["trajectories", "export", "--out", "package.json"],
      /--out "package.json" can not be used/,
    ],
    ["a reason that is too long", ["stop", "--reason", "x".repeat(501)], /--reason.*at most 500/],
  ])("%s", (_, args, complaint) => {
    const { code, stdout, stderr } = muster(args);
    expect(stderr).toMatch(complaint);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(stdout).toBe("");
    expect(code).toBe(2);
  });
});

describe("a job file", { timeout }, () => {
  it("has all its faults listed at once", () => {
    const file = join(directory.path, "bad.toml");
    writeFileSync(file, '[job]\nname = "Bad Name"\nsteps = 0\n\n[batch]\ngroup_sise = 4\n\n[timing]\nstep = "soon"\n');
    const text = muster(["config", "check", file]);
    expect(text.code).toBe(2);
    for (const fault of ["job.name", "job.steps", "batch.group_sise", "timing.step"])
      expect(text.stderr).toContain(fault);
    expect(text.stderr).toContain("bad.toml:6");

    const json = muster(["config", "check", file, "--json"]);
    expect(json.code).toBe(2);
    const { ok, problems } = JSON.parse(json.stdout) as { ok: boolean; problems: readonly string[] };
    expect(ok).toBe(false);
    expect(problems.length).toBe(text.stderr.split("\n  - ").length - 1);
    expect(problems.find((problem) => problem.includes("group_sise"))).toContain("did you mean batch.group_size?");
  });

  it("that is sound passes", () => {
    expect(muster(["config", "check"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("is sound: job dates"),
    });
    expect(JSON.parse(muster(["config", "check", "--json"]).stdout)).toMatchObject({ ok: true, problems: [] });
  });

  it("as printed means the same job", async () => {
    const printed = muster([
      "config",
      "print",
      "--explain",
      "--set",
      "batch.group_size=4",
      "--set",
      "task.reward=exact-match",
    ]);
    expect(printed.code).toBe(0);
    expect(printed.stdout).toMatch(/^group_size = 4 +# flag$/m);
    expect(printed.stdout).toMatch(/^name = "dates" +# dates\.toml:\d+$/m);
    expect(printed.stdout).toMatch(/# default$/m);
    const file = join(directory.path, "printed.toml");
    writeFileSync(file, printed.stdout);
    const original = await loadJobFile({ file: join(root, "jobs/dates.toml"), set: ["batch.group_size=4"], env: {} });
    expect((await loadJobFile({ file, env: {} })).config).toEqual(original.config);
  });

  it("prints as the compiled configuration for programs, and with the sources", () => {
    const config = JSON.parse(muster(["config", "print", "--json", "--set", "checkpoint.every_steps=7"]).stdout);
    expect(config.checkpoint.everySteps).toBe(7);
    const settings = JSON.parse(muster(["config", "print", "--json", "--explain"], { MUSTER_JOB_SEED: "9" }).stdout);
    expect(settings).toContainEqual({ key: "job.seed", value: "9", source: "env:MUSTER_JOB_SEED" });
  });
});

describe("help", { timeout }, () => {
  it("has examples of every command, all of commands and options that exist", () => {
    const nodes = commandsOf(treeOf(program));
    const names = nodes.map(({ path }) => path.join(" ")).filter((name) => !/(^| )help$/.test(name));
    expect(Object.keys(examples).sort()).toEqual(names.sort());
    for (const [name, lines] of Object.entries(examples)) {
      const known = nodes.filter(({ path }) => path.join(" ").startsWith(name)).flatMap(({ options }) => options);
      for (const [line] of lines) {
        expect(line).toContain(`muster ${name}`);
        for (const [option] of line.matchAll(/--[a-z-]+/g)) expect(known.map(({ long }) => long)).toContain(option);
      }
    }
  });

  it("ends with the examples; that of the program with the exit codes", () => {
    const status = muster(["status", "--help"]);
    expect(status).toMatchObject({ code: 0, stderr: "" });
    expect(status.stdout).toContain("Examples:\n  muster status ");
    expect(muster(["help", "status"]).stdout).toBe(status.stdout);
    expect(muster(["--help"]).stdout).toMatch(/Exit codes:\n {2}0 .*\n {2}1 .*\n {2}2 /);
  });

  it("is what muster says when it is asked nothing", () => {
    expect(muster([])).toMatchObject({ code: 2, stdout: "", stderr: muster(["--help"]).stdout });
  });
});
