import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildOnce, muster } from "./support/muster.ts";

let directory: TempDirectory;
beforeAll(async () => {
  buildOnce();
  directory = await makeTempDirectory();
}, 120_000);
afterAll(() => directory.remove());

describe("muster sim", { timeout: 60_000 }, () => {
  it("ends with one line of JSON: seeds, node-hours, faults, violations and speed-up; code 0 when every invariant held", () => {
    const { code, stdout, stderr } = muster(["sim", "--profile", "kills", "--seed", "1", "--seeds", "2", "--json"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    const found = JSON.parse(stdout);
    expect(found).toMatchObject({ profile: "kills", firstSeed: 1, seeds: 2, violations: 0, failed: [] });
    expect(found.nodeHours).toBeGreaterThan(0);
    expect(found.speedUp).toBeGreaterThan(1);
    const byKind: readonly number[] = Object.values(found.faults);
    expect(found.faultsInjected).toBeGreaterThan(0);
    expect(found.faultsInjected).toBe(byKind.reduce((sum, count) => sum + count));
  });

  it("ends with code 1 and says which invariants are broken when a scenario is run that does not hold", () => {
    const file = join(directory.path, "short.json");
    const scenario = { seed: 1, profile: "quiet", limitMs: 1_000 };
    writeFileSync(file, JSON.stringify({ why: "a second is too short for a job", scenario }));
    const [first, again] = [muster(["sim", "--replay", file]), muster(["sim", "--replay", file])];
    expect(first).toMatchObject({ code: 1, stderr: "" });
    expect(first.stdout).toMatch(/^a second is too short for a job\nseed 1, profile quiet, log hash [0-9a-f]{16}\n/);
    expect(first.stdout).toContain("L1 at 1.0 s: the job has not ended (limit)");
    expect(again).toEqual(first);
  });

  it("writes the scenario of a failing seed with the faults that it needs, and prints the command that runs it again", () => {
    const out = join(directory.path, "found");
    const bug = "effects-before-journal";
    const found = muster(["sim", "--profile", "kills", "--seed", "1", "--bug", bug, "--out", out]);
    const [, file = ""] = /^seed 1 needs \d+ of \d+ faults: muster sim --replay (.+)$/m.exec(found.stdout) ?? [];
    expect(found.code, found.stdout).toBe(1);
    expect(file).toBe(join(out, "kills-1.json"));
    const { why, scenario, ...kept } = JSON.parse(readFileSync(file, "utf8"));
    expect(why).toMatch(/^S4: /);
    expect(found.stdout).toContain("failed: muster sim > seed 1 of profile kills: S4: ");
    expect(kept).toMatchObject({ bug, hash: expect.stringMatching(/^[0-9a-f]{16}$/) });
    expect(scenario).toMatchObject({ seed: 1, profile: "kills" });
    expect(scenario.faults.length).toBeLessThan(Number(/needs \d+ of (\d+) faults/.exec(found.stdout)?.[1]));
    const again = muster(["sim", "--replay", file]);
    expect(again).toMatchObject({ code: 1, stderr: "" });
    expect(again.stdout).toContain(`${why}\n`);
    expect(again.stdout).toMatch(/S4 at /);
  });

  it("counts the pairs of a failpoint and an action, and fails without all of them when they are required", () => {
    const { code, stdout, stderr } = muster(["sim", "--seed", "1", "--require-coverage"]);
    expect(code, stdout).toBe(1);
    const [, reached, possible] = /^covered +(\d+) of (\d+) pairs .*; never: .* more$/m.exec(stdout) ?? [];
    expect(Number(reached)).toBeGreaterThan(0);
    expect(stdout.trimEnd().split("\n").at(-1)).toBe("1 passed, 1 failed");
    const [title, ...never] = stderr.trimEnd().split("\n");
    expect(title).toBe("never reached, by failpoint and action:");
    expect(never).toHaveLength(Number(possible) - Number(reached));
    expect(never.every((line) => /^(controller|policy|rollout|checkpoint)\.\S+ \w+$/.test(line))).toBe(true);
  });

  it("refuses to ask for the coverage of faults without failpoints", () => {
    const { code, stderr } = muster(["sim", "--seed", "1", "--profile", "kills", "--require-coverage"]);
    const isNamed = stderr.includes("--require-coverage: kills is a profile without failpoints");
    expect({ code, isNamed }).toEqual({ code: 2, isNamed: true });
  });

  it("knows its deliberate bugs by name", () => {
    const { code, stderr } = muster(["sim", "--seed", "1", "--bug", "none-such"]);
    expect({ code, isNamed: stderr.includes("none-such is no deliberate bug") }).toEqual({ code: 2, isNamed: true });
  });
});
