import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { tallyOfCtest } from "../../../scripts/lib/ctest.mjs";
import { runCommand } from "../../../scripts/lib/run-command.mjs";
import { conclude, one, sumOf } from "../../../scripts/lib/tally.mjs";
import { filesThatWait, waitingLine } from "../../../scripts/lib/turns.mjs";
import { skippedIn, tallyOf, testFilesIn } from "../../../scripts/lib/vitest.mjs";
import { root } from "../checks/repository.ts";

const failureMessages = ["\u001b[31mAssertionError: expected 1 to be 2\u001b[39m\n    at a.test.ts:3:5"];
const file = (status: string, ...statuses: string[]) => ({
  name: join(root, "packages/a.test.ts"),
  status,
  message: "\nSyntaxError: no such thing\n    at a.test.ts",
  assertionResults: statuses.map((each, index) => ({ fullName: `test ${index}`, status: each, failureMessages })),
});
const failed = { code: 1, ended: "ended with code 1" };
const oneFailed = "packages/a.test.ts > test 2: AssertionError: expected 1 to be 2";

describe("counting vitest's results", () => {
  it("takes passed and failed tests from the report", () => {
    const report = {
      numPassedTests: 2,
      numFailedTests: 1,
      testResults: [file("failed", "passed", "passed", "failed", "skipped")],
    };
    expect(tallyOf(report, failed, "unit")).toEqual({ passed: 2, failed: 1, failures: [oneFailed] });
  });

  it("has a line with the reason for each skipped test, and one for a test without a reason where nobody chose among them", () => {
    const skips = [
      { title: "a chain of hosts", why: "needs root\nand iproute2" },
      { title: "a test", why: null },
    ];
    const reasoned = "a chain of hosts: needs root and iproute2";
    expect(skippedIn(skips, true)).toEqual([reasoned]);
    expect(skippedIn(skips, false)).toEqual([reasoned, "a test: it does not say why"]);
  });

  it("counts a file that could not be loaded as a failure", () => {
    const testResults = [file("passed", "passed"), file("failed")];
    expect(tallyOf({ numPassedTests: 1, numFailedTests: 0, testResults }, failed, "unit")).toEqual({
      ...{ passed: 1, failed: 1 },
      failures: ["packages/a.test.ts: SyntaxError: no such thing"],
    });
  });

  it("counts an error outside of tests, and a run without a report, as a failure", () => {
    const report = { numPassedTests: 1, numFailedTests: 0, testResults: [file("passed", "passed")] };
    const failures = ["unit: vitest ended with code 1, and no test failed; its output says why"];
    expect(tallyOf(report, failed, "unit")).toEqual({ passed: 1, failed: 1, failures });
    expect(tallyOf(null, failed, "unit")).toEqual({ passed: 0, failed: 1, failures });
  });

  it("says that it was ended because it was too slow", () => {
    const failures = ["e2e: vitest was ended after 60 min: too slow, and no test failed; its output says why"];
    const ended = { code: 143, ended: "was ended after 60 min: too slow" };
    expect(tallyOf(null, ended, "e2e")).toEqual({ passed: 0, failed: 1, failures });
  });
});

describe("end-to-end files of one commit", () => {
  const files = testFilesIn("test/e2e");
  const [even, odd] = [filesThatWait(files, "6"), filesThatWait(files, "7")];

  it("are all of them by hand", () => expect(filesThatWait(files, undefined)).toEqual([]));

  it("are those that wait at the commit before, and what runs at both", () => {
    expect(even.filter((file) => odd.includes(file))).toEqual([]);
    const both = files.filter((file) => ![...even, ...odd].includes(file));
    expect(both.map((file) => basename(file)).sort()).toEqual(
      ["check", "newcomer", "resume", "same-hash", "saved-work", "several-hosts", "snapshots", "unsupervised"].map(
        (name) => `${name}.test.ts`,
      ),
    );
    for (const half of [even, odd]) expect(half.length).toBeGreaterThan(files.length / 3);
  });

  it("are named in one line when they wait", () => {
    const waiting = ["test/e2e/fleet.test.ts", "test/e2e/agents.test.ts"];
    expect(waitingLine(waiting, 3)).toBe("2 of 3 end-to-end files: the next commit's turn runs them: fleet, agents");
  });
});

describe("counting ctest's results", () => {
  it("reads the closing lines", () => {
    const failed = "\t  2 - mesh_test (Failed)\n\t  5 - links_test (Timeout)\n";
    const text = `…\n60% tests passed, 2 tests failed out of 5\n\nThe following tests FAILED:\n${failed}`;
    const failures = ["native > mesh_test: Failed", "native > links_test: Timeout"];
    expect(tallyOfCtest(text, 8)).toEqual({ passed: 3, failed: 2, failures, skipped: [] });
    expect(tallyOfCtest("100% tests passed, 0 tests failed out of 5\n", 0)).toMatchObject({ passed: 5, failed: 0 });
  });

  it("does not count as passed what says that it did not run", () => {
    const text =
      "100% tests passed, 0 tests failed out of 5\n\nskipped gloo_test: there was no Gloo when this was built\n";
    const skipped = ["gloo_test: there was no Gloo when this was built"];
    expect(tallyOfCtest(text, 0)).toEqual({ passed: 4, failed: 0, failures: [], skipped });
  });

  it("counts a build that failed as a failure", () => {
    const failures = ["native: its build or run ended with code 2"];
    expect(tallyOfCtest("error: no such thing", 2)).toEqual({ passed: 0, failed: 1, failures, skipped: [] });
  });
});

describe("the last lines", () => {
  const linesOf = (parts: Parameters<typeof sumOf>[0]) => {
    const log = vi.spyOn(console, "log").mockImplementation(() => {});
    onTestFinished(() => log.mockRestore());
    const code = conclude(sumOf(parts));
    return { code, lines: log.mock.calls.flatMap(([text]) => String(text).trim().split("\n")) };
  };

  it("sum all parts, and only a run without failures is a success", () => {
    expect(linesOf([one("a", null), one("b", null)])).toEqual({ code: 0, lines: ["2 passed, 0 failed"] });
  });

  it("name what failed, after what was skipped, and why", () => {
    const skipped = { passed: 0, failed: 0, failures: [], skipped: ["a chain of hosts: needs root"] };
    const { code, lines } = linesOf([one("types", "ended with\ncode 2"), one("lint", null), skipped]);
    expect(code).toBe(1);
    expect(lines).toEqual([
      ...["skipped: a chain of hosts: needs root", "1 skipped"],
      ...["failed: types: ended with code 2", "1 passed, 1 failed"],
    ]);
  });

  it("are those of a failure when nothing ran", () => {
    expect(linesOf([])).toMatchObject({ code: 1 });
  });
});

describe("a command", () => {
  const never = new AbortController().signal;

  it("gives its exit code and the end of what it wrote", async () => {
    const result = await runCommand("sh", ["-c", "seq 100; echo wrong >&2; exit 3"], { cwd: root, signal: never });
    expect(result).toMatchObject({ code: 3, timedOut: false });
    expect(result.tail.split("\n")).toHaveLength(30);
    expect(result.tail).toContain("wrong");
  });

  it("that does not exist gives code 127", async () => {
    expect((await runCommand("no-such-command", [], { cwd: root, signal: never })).code).toBe(127);
  });

  it("is ended with its children at the deadline", async () => {
    const result = await runCommand("sh", ["-c", "sleep 60 & echo $!; wait"], {
      cwd: root,
      signal: never,
      timeoutMs: 500,
    });
    expect(result.timedOut).toBe(true);
    await vi.waitFor(() => expect(isAlive(Number(result.tail.split("\n")[0]))).toBe(false), 5_000);
  });

  it("is ended with its children by Ctrl-C, and the script ends with the code of the signal", async () => {
    const library = (name: string) => JSON.stringify(pathToFileURL(join(root, `scripts/lib/${name}.mjs`)).href);
    const script = `
      import { untilInterrupted } from ${library("interrupt")};
      import { main } from ${library("main")};
      import { runCommand } from ${library("run-command")};
      const output = (chunk) => process.stdout.write(chunk);
      await main(() => untilInterrupted((signal) => runCommand("sh", ["-c", "sleep 60 & echo $!; wait"], { cwd: ".", signal, output })));`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const closed = new Promise((resolve) => parent.once("close", resolve));
    const sleeper = Number(await new Promise((resolve) => parent.stdout.once("data", resolve)));
    parent.kill("SIGINT");
    expect(await closed).toBe(130);
    await vi.waitFor(() => expect(isAlive(sleeper)).toBe(false), 5_000);
  });
});

/** A process that ended but was not reaped yet (state Z) is not alive. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync(`/proc/${pid}/stat`) || !/\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    return !["ESRCH", "ENOENT"].includes((error as NodeJS.ErrnoException).code ?? "");
  }
}
