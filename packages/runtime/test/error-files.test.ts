import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ErrorFiles } from "../src/index.ts";
import { recordingLogger } from "./helpers.ts";

const MiB = 1024 ** 2;
let folder: Awaited<ReturnType<typeof makeTempDirectory>>;
beforeEach(async () => {
  folder = await makeTempDirectory();
});
afterEach(() => folder.remove());

/** A clock that moves by hand. */
function manualTimers() {
  const waiting = new Set<() => void>();
  return {
    waiting,
    clock: {
      now: () => 0,
      after: (_: number, run: () => void) => {
        waiting.add(run);
        return () => void waiting.delete(run);
      },
    },
    look() {
      const due = [...waiting];
      waiting.clear();
      for (const run of due) run();
    },
  };
}

/** A process that writes as many MiB to its standard error as it is told, each ending with its number. */
const writer = `
let at = 0;
process.stdin.on("data", (told) => {
  for (let i = 0; i < Number(told); i++) require("fs").writeSync(2, "x".repeat(${MiB} - 8) + String(++at).padStart(7) + "\\n");
  process.stdout.write("done");
});
process.stdin.on("end", () => process.exit(0));
`;

it("a process that writes without end leaves a file of bounded size, with its last words", async () => {
  const path = join(folder.path, "r0.err");
  const log = openSync(path, "a", 0o600);
  const child = spawn(process.execPath, ["-e", writer], { stdio: ["pipe", "pipe", log] });
  closeSync(log);
  const { clock, waiting, look } = manualTimers();
  const { logger, lines } = recordingLogger();
  const files = new ErrorFiles({ clock, logger });
  const left: number[] = [];
  files.add(path, (bytes) => left.push(bytes));
  const write = async (mib: number): Promise<void> => {
    child.stdin?.write(String(mib));
    await once(child.stdout as NonNullable<typeof child.stdout>, "data");
  };
  await write(6);
  look();
  expect(statSync(path).size).toBe(6 * MiB);
  await write(6);
  look();
  expect(statSync(path).size).toBe(MiB);
  expect(readFileSync(path, "utf8").slice(-8)).toBe("     12\n");
  await write(1);
  expect(statSync(path).size).toBe(2 * MiB);
  await write(9);
  child.stdin?.end();
  await once(child, "exit");
  files.remove(path);
  expect(readFileSync(path, "utf8").slice(-8)).toBe("     22\n");
  expect([statSync(path).size, left, waiting.size]).toEqual([MiB, [MiB, MiB], 0]);
  expect(lines.map(({ message }) => message)).toEqual(
    Array(2).fill("what a process wrote to its standard error is cut: only the end is left"),
  );
});

it("a file that is no file is said, and ends nobody", () => {
  const { clock } = manualTimers();
  const { logger, lines } = recordingLogger();
  const files = new ErrorFiles({ clock, logger });
  files.add(folder.path);
  files.remove(folder.path);
  expect(lines).toHaveLength(1);
});
