import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeTempDirectory, type TempDirectory } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildOnce, muster, root } from "./support/muster.ts";

const hook = fileURLToPath(new URL("support/log-loads.mjs", import.meta.url));
const bin = fileURLToPath(new URL("../bin/muster.mjs", import.meta.url));
/** What only an engine has: its own folder. */
const isOfEngine = (url: string): boolean => /\/engine\/dist\/(embedded|hf-folder|worker|compliance)\b/.test(url);
/** What only a process that serves HTTP has. */
const isOfServer = (url: string): boolean =>
  /\/node_modules\/(fastify|undici)\/|\/(gateway|dashboard)\/dist\//.test(url);

describe("engines are loaded when a job needs one, and servers when they serve:", { timeout: 60_000 }, () => {
  let directory: TempDirectory;
  let runs = 0;

  beforeAll(async () => {
    buildOnce();
    directory = await makeTempDirectory();
  }, 120_000);
  afterAll(() => directory.remove());

  /** Modules that a command loads, whatever it says and however it ends. */
  function modulesOf(...args: string[]): readonly string[] {
    const file = join(directory.path, `loads-${runs++}`);
    const env = { ...process.env, LOADS_TO: file };
    try {
      execFileSync(process.execPath, ["--import", hook, bin, ...args], { cwd: root, env, stdio: "pipe" });
    } catch (error) {
      expect((error as { readonly status: number }).status).toBe(2);
    }
    return readFileSync(file, "utf8").split("\n");
  }

  it.each([
    ["muster --help", ["--help"]],
    ["muster status of a job that is not there", ["status", "--job", "none"]],
    ["a command that is not known", ["nope"]],
    ["muster router with an option that is wrong", ["router", "--nope"]],
  ])("%s loads none", (_, args) => {
    const modules = modulesOf(...args);
    expect(modules.some((url) => url.includes("/cli/dist/program.js"))).toBe(true);
    expect(modules.filter(isOfEngine)).toEqual([]);
    expect(modules.filter(isOfServer)).toEqual([]);
  });

  it("an engine that nobody knows is refused with the known ones", () => {
    const { code, stderr } = muster(["config", "check", "jobs/dates.toml", "--set", "engine.kind=llam"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /engine\.kind = "llam": engine "llam" is not known; known engines are embedded, openai, sglang, vllm, worker, or the path/,
    );
  });

  it("muster doctor asks the engine that it is told", () => {
    const { stdout } = muster(["doctor", "--json", "--engine", "examples/echo-engine/echo.mjs"]);
    const { checks } = JSON.parse(stdout) as { readonly checks: readonly object[] };
    expect(checks).toContainEqual({ state: "ok", name: "echo", detail: "needs nothing", fix: null });
  });

  it("muster config check loads the engine of its job", () => {
    expect(modulesOf("config", "check", "jobs/dates.toml").some(isOfEngine)).toBe(true);
  });

  it("muster gateway loads its server", () => {
    const modules = modulesOf("gateway", "--tokens", join(directory.path, "none"));
    expect(modules.some((url) => url.includes("/node_modules/fastify/"))).toBe(true);
    expect(modules.filter(isOfServer)).not.toEqual([]);
  });
});
