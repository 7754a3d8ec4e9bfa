/** The functions of `.ci/run`, with programs of the test's own on `PATH`. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { root } from "../checks/repository.ts";

const usual = [
  "timeout",
  "tee",
  "grep",
  "sed",
  "wc",
  "cat",
  "tail",
  "bash",
  "nice",
  "setsid",
  "sleep",
  "mkdir",
  "chmod",
];

/** Runs lines of bash after the functions. `programs` are all that is on `PATH` besides the usual ones: name and text. */
function bash(lines: string, programs: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "muster-ci-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of usual) {
    const { stdout } = spawnSync("bash", ["-c", `command -v ${name}`], { encoding: "utf8" });
    symlinkSync(stdout.trim(), join(folder, name));
  }
  for (const [name, text] of Object.entries(programs))
    writeFileSync(join(folder, name), `#!${join(folder, "bash")}\n${text}\n`, { mode: 0o755 });
  const script = `set -uo pipefail\nsource "${join(root, "scripts/lib/ci.sh")}"\n${lines}`;
  const { status, stdout, stderr } = spawnSync("bash", ["--norc", "-c", script], {
    cwd: folder,
    env: { PATH: folder, CALLS: join(folder, "calls") },
    encoding: "utf8",
  });
  return { status, stderr, lines: stdout.split("\n").filter((line) => line !== ""), folder };
}

describe("the tools that some tests need", () => {
  const recorder = 'echo "$@" >>"$CALLS"';
  const asRoot = { id: "echo 0" };

  it("are installed where they are missing and that can be done", () => {
    const { status, lines, folder } = bash("install_tools", {
      ...asRoot,
      ip: "",
      chromium: "",
      dpkg: "",
      "apt-get": recorder,
    });
    expect(lines).toEqual(["installing nftables for tests that need them"]);
    expect(status).toBe(0);
    const calls = readFileSync(join(folder, "calls"), "utf8").trim().split("\n");
    expect(calls).toEqual(["update --quiet", "install --quiet --yes --no-install-recommends nftables"]);
  });

  it("are left alone where they are there", () => {
    const { status, lines, stderr } = bash("install_tools", { ip: "", nft: "", chromium: "", dpkg: "" });
    expect({ status, lines, stderr }).toEqual({ status: 0, lines: [], stderr: "" });
  });

  it.each([
    ["nobody may", { id: "echo 1000", "apt-get": recorder }, "which needs root and apt-get"],
    ["there is no apt-get", asRoot, "which needs root and apt-get"],
    ["apt-get fails", { ...asRoot, "apt-get": "exit 100" }, "because apt-get failed"],
  ])("are said to be missing where %s, and the run goes on", (_, programs, why) => {
    const { status, lines } = bash("install_tools\necho on", programs);
    const missing = `not installed: iproute2 nftables chromium libgloo-dev, ${why}; tests that need them are skipped`;
    expect(lines.slice(-2)).toEqual([missing, "on"]);
    expect(status).toBe(0);
  });
});

describe("what is fetched beside the set-up", () => {
  const fetching = (ending: string) =>
    `mkdir -p .muster/ci scripts\nprintf '#!%s\\necho no mirror\\n${ending}\\n' "$(command -v bash)" >scripts/get-torch.sh\nchmod +x scripts/get-torch.sh`;

  it.each([
    ["exit 1", ["no current PyTorch (no mirror); tests that need it are skipped"]],
    ["exit 0", []],
  ])("is waited for, and said to be missing where it does not come: %s", (ending, said) => {
    const { status, lines } = bash(`${fetching(ending)}\nbegin_torch\nawait_torch\necho on`);
    expect(lines).toEqual(["fetching a current PyTorch for tests that need it", ...said, "on"]);
    expect(status).toBe(0);
  });
});

describe("the end of a run", () => {
  const part = (text: string, code: number) => `cat <<'EOF'\n${text}\nEOF\nexit ${code}`;
  const closing = (lines: readonly string[], from: string) => lines.slice(lines.indexOf(from) + 1);

  it("names what was skipped and what failed in each part, and sums them", () => {
    const programs = {
      good: part("skipped: a: needs root\n3 passed, 0 failed", 0),
      bad: part("failed: x.test.ts > y: no\n1 passed, 1 failed", 1),
    };
    const { status, lines } = bash("count good.log good\ncount bad.log bad\necho end\nconclude", programs);
    expect(closing(lines, "end")).toEqual([
      ...["skipped: a: needs root", "1 skipped", "failed: x.test.ts > y: no", "4 passed, 1 failed"],
    ]);
    expect(status).toBe(1);
  });

  it("names a part that ended without a word", () => {
    const { lines } = bash("count a.log dies now\necho end\nconclude", { dies: "exit 137" });
    const failed = "failed: dies now: it ended with code 137; a.log says why";
    expect(closing(lines, "end")).toEqual([failed, "0 passed, 1 failed"]);
  });

  it("is a success when all passed, and not when nothing ran", () => {
    expect(bash("count a.log good\nconclude", { good: part("2 passed, 0 failed", 0) }).status).toBe(0);
    expect(bash("count a.log good\nconclude", { good: part("0 passed, 0 failed", 0) }).status).toBe(1);
  });
});

/** False also for one that has ended and was not waited for. */
function isRunning(pid: number): boolean {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) && !/\) Z /.test(readFileSync(path, "utf8"));
}

describe("what runs beside the tests", () => {
  const part = (text: string, code = 0) => `echo "${text}"\nexit ${code}`;
  const both = "mkdir -p .muster/ci\nboth() { aside a.log a\naside b.log b now; }\nbeside both\n";

  it("is counted after them, in its order, with what it skipped and what failed", () => {
    const a = part("skipped: a: needs root\n3 passed, 0 failed");
    const programs = { a, b: part("2 passed, 0 failed", 7), tests: part("5 passed, 0 failed") };
    const { status, lines } = bash(`${both}count t.log tests\ncount_beside\nconclude`, programs);
    expect(lines).toEqual([
      ...["5 passed, 0 failed", "skipped: a: needs root", "3 passed, 0 failed", "2 passed, 0 failed"],
      ...["skipped: a: needs root", "1 skipped"],
      ...["failed: b now: it ended with code 7; b.log says why", "10 passed, 1 failed"],
    ]);
    expect(status).toBe(1);
  });

  it("does not run before them: whatever they want of the processors goes to them", () => {
    const { lines } = bash(`${both}count_beside`, { a: "nice", b: part("1 passed, 0 failed") });
    expect(lines[0]).toBe("19");
  });

  it("is a failure when it was ended before it was through", () => {
    const programs = { a: "kill -9 $PPID", b: part("1 passed, 0 failed") };
    const { status, lines } = bash(`${both}count_beside\nconclude`, programs);
    expect(lines.at(-1)).toBe("0 passed, 1 failed");
    expect(lines).toContain("failed: what runs beside the tests ended with code 137, before its end");
    expect(status).toBe(1);
  });

  it("ends with the script, however that ends", async () => {
    const programs = { a: 'echo $$ >"$CALLS"\nexec sleep 600', b: "" };
    const { folder } = bash(`${both}until [[ -s calls ]]; do sleep 0.01; done\nkill -TERM $$\nsleep 600`, programs);
    const pid = Number(readFileSync(join(folder, "calls"), "utf8"));
    await vi.waitFor(() => expect(isRunning(pid)).toBe(false));
  });
});
