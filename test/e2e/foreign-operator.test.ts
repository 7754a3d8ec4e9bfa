/** An operator that shares no code with us: a file of Python's standard library reads, follows, scales and stops a real job, and another job is closed to it. */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

const program = fileURLToPath(new URL("../../examples/operator/operator.py", import.meta.url));
const isMissing = spawnSync("python3", ["--version"]).status !== 0;

const timeoutMs = 90_000;

describe("an operator in Python", { timeout: timeoutMs }, () => {
  let runs: Runs;
  let run: JobRun;
  let file: string;
  beforeEach((context) => context.skip(isMissing, "there is no python3 here"));
  beforeAll(async () => {
    runs = await openRuns();
    if (isMissing) return;
    const small = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];
    run = await runs.start("foreign", "--steps", "100000", ...small);
    await run.waitForEvent("step.committed");
    const given = await runs.muster("credentials", "operator", "--job", run.job, "--replica", "shell");
    await given.exited;
    file = join(runs.path, "operator.json");
    writeFileSync(file, given.lines.join("\n"));
    chmodSync(file, 0o600);
  }, timeoutMs);
  afterAll(() => runs.close(), timeoutMs);

  /** Runs the program. @returns Exit code, and its output by lines. */
  const operate = (...args: string[]) => operateAnd(() => {}, ...args);
  const operateAnd = (hear: (said: string) => void, ...args: string[]) =>
    new Promise<{ readonly code: number | null; readonly lines: readonly string[]; readonly said: string }>(
      (resolve) => {
        const child = spawn("python3", [program, ...args], { stdio: ["ignore", "pipe", "pipe"], timeout: 60_000 });
        const parts: string[] = [];
        const faults: string[] = [];
        child.stdout.on("data", (data: Buffer) => {
          parts.push(data.toString());
          hear(parts.join(""));
        });
        child.stderr.on("data", (data: Buffer) => faults.push(data.toString()));
        child.on("close", (code) => {
          const text = parts.join("").trim();
          resolve({ code, lines: text === "" ? [] : text.split("\n"), said: faults.join("") });
        });
      },
    );

  test("reads the status", async () => {
    const { code, lines, said } = await operate(file, "status");
    expect(code, said).toBe(0);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ job: run.job, fleet: { wanted: { policy: 1, rollout: 1 } } });
  });

  test("scales a role, and hears when it is done", async () => {
    const { code, lines, said } = await operate(file, "fleet.scale", '{"rollout": 2}');
    expect(code, said).toBe(0);
    const events = lines.map((line) => JSON.parse(line) as { kind: string; body: { outcome?: string; by?: string } });
    expect(events.map(({ kind }) => kind)).toEqual(["command.accepted", "command.done"]);
    expect(events[1]?.body).toMatchObject({ outcome: "done", by: "shell json" });
    expect(run.events("member.joined").map(({ id }) => id)).toContain("rollout-1");
  });

  test("pauses and resumes the process of a replica", async () => {
    for (const signal of ["SIGSTOP", "SIGCONT"]) {
      const { code, said } = await operate(file, "replica.kill", JSON.stringify({ id: "rollout-1", signal }));
      expect(code, said).toBe(0);
    }
  });

  test("is told why a command of the wrong shape is refused", async () => {
    const { code, lines } = await operate(file, "fleet.scale", '{"rollouts": 2}');
    expect(code).toBe(2);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      kind: "message.refused",
      body: {
        id: expect.stringMatching(/^json\.shell\.\d+$/),
        code: "malformed",
        detail: expect.stringContaining("rollouts"),
      },
    });
  });

  test("has no way into another job, nor in with a token of somebody else", async () => {
    const given = JSON.parse(readFileSync(file, "utf8")) as {
      job: string;
      credentials: { operator: { seed: string } };
    };
    const other = join(runs.path, "other.json");
    writeFileSync(other, JSON.stringify({ ...given, job: "other" }));
    expect((await operate(other, "fleet.scale", '{"rollout": 3}')).said).toMatch(/Permissions Violation/i);
    const { operator } = given.credentials;
    const seed = operator.seed.replace(/.(?=.{20}$)/, (letter) => (letter === "A" ? "B" : "A"));
    writeFileSync(other, JSON.stringify({ ...given, credentials: { operator: { ...operator, seed } } }));
    expect((await operate(other, "status")).said).toMatch(/the broker refuses: .*Authorization Violation/i);
  });

  test("follows the events to the end, and stops the job", async () => {
    let heard = "";
    const hear = (said: string): void => {
      heard = said;
    };
    const watching = operateAnd(hear, file, "watch");
    await waitFor(() => heard.includes("step.committed"), { what: "a step that the operator hears of", timeoutMs });
    const { code, lines, said } = await operate(file, "job.stop", '{"reason": "enough"}');
    expect(code, said).toBe(0);
    expect(JSON.parse(lines.at(-1) ?? "").kind).toBe("command.done");
    const watched = (await watching).lines.map((line) => (JSON.parse(line) as { kind: string }).kind);
    expect(watched).toContain("step.committed");
    expect(watched.at(-1)).toBe("job.ended");
    await run.ended();
  });
});
