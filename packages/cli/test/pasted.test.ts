import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { pasted, wayTo } from "../src/composition/pasted.ts";

beforeEach(() => void vi.stubEnv("INIT_CWD", process.cwd()));
afterEach(() => void vi.unstubAllEnvs());

it("a printed command works when it is pasted, also with words that a shell would take apart", () => {
  expect(pasted("run", "--job", "one")).toBe("node packages/cli/bin/muster.mjs run --job one");
  const text = pasted("run", "--job", "it's; $HOME *");
  expect(execFileSync("sh", ["-c", `printf '%s|' ${text.replace("node ", "")}`], { encoding: "utf8" })).toBe(
    "packages/cli/bin/muster.mjs|run|--job|it's; $HOME *|",
  );
});

it("a printed command names the folder of the runs unless it is the usual one, and whole paths below a script of npm", async () => {
  expect(wayTo("one", "runs")).toEqual(["--job", "one"]);
  expect(wayTo("one", join(process.cwd(), "runs"))).toEqual(["--job", "one"]);
  expect(wayTo("one", "/data/runs")).toEqual(["--job", "one", "--runs", "/data/runs"]);
  const elsewhere = await makeTempDirectory();
  vi.stubEnv("INIT_CWD", elsewhere.path);
  expect(wayTo("one", "runs")).toEqual(["--job", "one", "--runs", join(process.cwd(), "runs")]);
  expect(pasted("jobs")).toBe(`node ${join(process.cwd(), "packages/cli/bin/muster.mjs")} jobs`);
  await elsewhere.remove();
});

it("a printed command says muster where that is this program, and not where it is another one", async () => {
  const folder = await makeTempDirectory();
  const target = join(process.cwd(), "packages/cli/bin/muster.mjs");
  execFileSync("ln", ["-s", target, join(folder.path, "muster")]);
  vi.stubEnv("PATH", `/nowhere:${folder.path}`);
  expect(pasted("jobs")).toBe("muster jobs");
  execFileSync("/bin/ln", ["-sf", "/bin/sh", join(folder.path, "muster")]);
  expect(pasted("jobs")).toContain("node ");
  await folder.remove();
});
