/** Gives `runner.mjs` one order after another, each in a new process of one vitest that reads the sources once; a process that hangs is ended. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createVitest } from "vitest/node";
import { root } from "./numbers.mjs";

const folder = mkdtempSync(join(tmpdir(), "muster-mutants-"));
const orderFile = join(folder, "order.json");
const into = join(folder, "said.jsonl");
process.env.MUSTER_MUTANTS_ORDER = orderFile;
// A test that is run a thousand times in one process listens a thousand times to the end of its file.
process.env.NODE_NO_WARNINGS = "1";
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** So much longer than it said may an attempt be silent: the machine may have other work. */
const graceMs = 30_000;

const vitest = await createVitest("test", {
  config: resolve(import.meta.dirname, "vitest.config.mjs"),
  project: ["unit"],
  watch: false,
  bail: 1,
  pool: "forks",
  isolate: false,
  maxWorkers: 1,
  // A snapshot that a mutant changes is a failure and never written.
  update: false,
  reporters: [{}],
});

/**
 * What the runner says in one line: one thing, with what belongs to it.
 * @typedef {{ pid?: number, loaded?: string[], outside?: number[], test?: string, name?: string, ms?: number, met?: number[], withinMs?: number,
 *   mutant?: number, seen?: number, doubtful?: number[], ended?: boolean }} Line
 */

/** @returns {Line[]} */
function said() {
  if (!existsSync(into)) return [];
  return readFileSync(into, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

/** Ends the process that says nothing for too long. */
function watch() {
  let length = 0;
  let at = Date.now();
  return setInterval(() => {
    const lines = said();
    if (lines.length !== length) at = Date.now();
    length = lines.length;
    const pid = lines.findLast((line) => line.pid)?.pid;
    const withinMs = lines.findLast((line) => line.withinMs)?.withinMs ?? 60_000;
    if (pid === undefined || Date.now() - at < withinMs + graceMs) return;
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      // It may have ended by itself in this moment.
      if (!(error instanceof Error) || !("code" in error) || error.code !== "ESRCH") throw error;
    }
  }, 1000);
}

/**
 * @param {string[]} tests Files.
 * @param {{ way: string } & Record<string, unknown>} order
 * @returns {Promise<{ lines: Line[], hasPassed: boolean }>} What was said, until the end or until the process hung.
 */
export async function run(tests, order) {
  writeFileSync(orderFile, JSON.stringify({ ...order, into }));
  rmSync(into, { force: true });
  // What failed in an earlier run would end this one before its first test.
  vitest.state.filesMap.clear();
  vitest.state.idMap.clear();
  const timer = watch();
  try {
    const specifications = await vitest.getRelevantTestSpecifications(tests.map((test) => resolve(root, test)));
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    return { lines: said(), hasPassed: unhandledErrors.length === 0 && testModules.every((module) => module.ok()) };
  } finally {
    clearInterval(timer);
  }
}

export async function end() {
  await vitest.close();
}
