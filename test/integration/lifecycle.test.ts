import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { waitFor } from "@muster/testkit";
import { afterEach, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** A process that ends as told: `end` runs in onStop. */
const program = (supervised: boolean, { end = "", work = "" }): string => `
  import { createLogger, installLifecycle } from "@muster/runtime";
  const logger = createLogger({ level: "info" });
  installLifecycle({
    supervised: ${supervised}, graceMs: 60_000, logger,
    onStop: async (reason) => { console.log("stopping for " + reason); ${end} },
  });
  setInterval(() => {}, 60_000);
  console.log("ready");
  ${work}
`;

describe("the lifecycle of a real process", () => {
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  const run = async (code: string) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
      cwd: root,
      stdio: ["pipe", "pipe", "inherit"],
    });
    children.push(child);
    const lines: string[] = [];
    createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
    const ended = new Promise<string>((resolve) => {
      child.once("close", (exit, signal) => resolve(signal ?? `code ${exit}`));
    });
    const line = (text: string): Promise<string> =>
      waitFor(() => lines.find((seen) => seen.includes(text)), {
        what: `line "${text}"`,
        timeoutMs: 10_000,
        detail: () => lines,
      });
    await line("ready");
    return { child, lines, ended, line };
  };

  test("ends with code 0 when asked once and done in time", async () => {
    const { child, ended, lines } = await run(program(false, {}));
    child.kill("SIGTERM");
    expect(await ended).toBe("code 0");
    expect(lines).toContain("stopping for SIGTERM");
  });

  test("ends at once when asked twice", async () => {
    const { child, ended, line } = await run(program(false, { end: "await new Promise(() => {});" }));
    child.kill("SIGINT");
    await line("stopping for SIGINT");
    child.kill("SIGINT");
    expect(await ended).toBe("code 130");
  });

  test("logs a fault that nobody caught with its cause before it ends with code 70", async () => {
    const work = 'Promise.reject(new Error("lost", { cause: new Error("root cause") }));';
    const { ended, lines } = await run(program(false, { work }));
    expect(await ended).toBe("code 70");
    const logged = JSON.parse(lines.at(-1) ?? "{}");
    expect(logged).toMatchObject({
      level: "error",
      what: "unhandledRejection",
      error: { cause: { message: "root cause" } },
    });
  });

  test("leaves SIGINT to its supervisor and ends when the supervisor is gone", async () => {
    const { child, ended, lines } = await run(program(true, {}));
    child.kill("SIGINT");
    child.stdin?.end();
    expect(await ended).toBe("code 0");
    expect(lines.filter((line) => line.startsWith("stopping"))).toEqual(["stopping for parent-gone"]);
  });
});
