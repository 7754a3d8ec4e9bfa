import { spawn } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { runArguments } from "../../../scripts/lib/start-arguments.mjs";
import { root } from "../checks/repository.ts";

describe("the arguments of npm start", () => {
  const example = join(root, "jobs/dates.toml");

  it("run the example job unless the first one is a job file", () => {
    expect(runArguments([], root)).toEqual([example]);
    expect(runArguments(["--json", "x.toml"], root)).toEqual([example, "--json", "x.toml"]);
  });

  it("take a job file from where the user typed it, else from the repository", () => {
    expect(runArguments(["dates.toml", "--json"], join(root, "jobs"))).toEqual([example, "--json"]);
    expect(runArguments(["jobs/dates.toml"], join(root, "packages"))).toEqual([example]);
  });
});

describe("a command in the foreground", () => {
  /** Runs `node -e childScript` through the wrapper, in a process of its own. */
  function start(childScript: string) {
    const library = pathToFileURL(join(root, "scripts/lib/run-foreground.mjs")).href;
    const script = `
      import { runForeground } from ${JSON.stringify(library)};
      const args = ["-e", ${JSON.stringify(childScript)}];
      process.exitCode = await runForeground(process.execPath, args, { cwd: ".", env: process.env });`;
    const wrapper = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void wrapper.kill("SIGTERM"));
    const exitCode = new Promise<number | null>((resolve) => wrapper.once("close", resolve));
    const firstOutput = new Promise<void>((resolve) => wrapper.stdout.once("data", () => resolve()));
    return { wrapper, exitCode, firstOutput };
  }

  it("gives its exit code", async () => {
    expect(await start("process.exit(7)").exitCode).toBe(7);
  });

  it("ended by a signal gives 128 plus its number", async () => {
    expect(await start('process.kill(process.pid, "SIGKILL")').exitCode).toBe(137);
  });

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("gets %s, and decides itself how to end", async (name) => {
    const running = start(
      `process.on("${name}", () => process.exit(42)); setTimeout(() => {}, 30_000); console.log("ready");`,
    );
    await running.firstOutput;
    running.wrapper.kill(name);
    expect(await running.exitCode).toBe(42);
  });
});
