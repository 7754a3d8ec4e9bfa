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
/** Whoever waits hears so often how far it is. */
const progressMs = 30_000;

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
 * @typedef {{ pid?: number, loaded?: string[], outside?: number[], test?: string, name?: string, ms?: number, wallMs?: number, met?: number[],
 *   withinMs?: number, mutant?: number, seen?: number, survived?: number, doubtful?: number[], unmet?: number[], passed?: number, isPlain?: boolean, ended?: boolean }} Line
 */

/**
 * What became of a process: it went through its order (`ended`), said nothing for too long and was ended (`killed`), or ended by itself or by somebody
 * else before that, maybe before its first word (`lost`).
 * @typedef {{ lines: Line[], hasPassed: boolean, end: "ended" | "killed" | "lost" }} Said
 */

/** @returns {Line[]} */
function said() {
  if (!existsSync(into)) return [];
  return readFileSync(into, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

/** Ends the process that says nothing for too long, and tells now and then how far it is. @param {string} file @param {(text: string) => void} say */
function watch(file, say) {
  let length = 0;
  const startedAt = Date.now();
  let at = startedAt;
  let toldAt = startedAt;
  const state = { wasKilled: false, stop: () => clearInterval(timer) };
  const timer = setInterval(() => {
    const lines = said();
    if (lines.length !== length) at = Date.now();
    length = lines.length;
    if (Date.now() - toldAt >= progressMs) {
      toldAt = Date.now();
      const attempts = lines.filter(({ mutant = -1 }) => mutant >= 0).length;
      const seen = lines.filter((line) => line.seen !== undefined).length;
      say(`${file}, after ${Math.round((toldAt - startedAt) / 1000)} s: ${attempts} attempts, ${seen} seen`);
    }
    const pid = lines.findLast((line) => line.pid)?.pid;
    const withinMs = lines.findLast((line) => line.withinMs)?.withinMs ?? 60_000;
    if (pid === undefined || Date.now() - at < withinMs + graceMs) return;
    try {
      process.kill(pid, "SIGKILL");
      state.wasKilled = true;
    } catch (error) {
      // It may have ended by itself in this moment.
      if (!(error instanceof Error) || !("code" in error) || error.code !== "ESRCH") throw error;
    }
  }, 1000);
  return state;
}

/**
 * @param {string} file Of tests.
 * @param {{ way: string } & Record<string, unknown>} order
 * @param {{ times?: number, say?: (text: string) => void }} [how] How often the file is given to the process; who hears how far it is.
 * @returns {Promise<Said>} What was said, until the end or until the process hung.
 */
export async function run(file, order, { times = 1, say = () => {} } = {}) {
  writeFileSync(orderFile, JSON.stringify({ ...order, into }));
  rmSync(into, { force: true });
  // What failed in an earlier run would end this one before its first test.
  vitest.state.filesMap.clear();
  vitest.state.idMap.clear();
  const watching = watch(file, say);
  try {
    const [specification] = await vitest.getRelevantTestSpecifications([resolve(root, file)]);
    if (!specification) throw new Error(`vitest finds no tests in ${file}`);
    const specifications = new Array(times).fill(specification);
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
    const lines = said();
    const hasPassed = unhandledErrors.length === 0 && testModules.every((module) => module.ok());
    const end = lines.at(-1)?.ended ? "ended" : watching.wasKilled ? "killed" : "lost";
    return { lines, hasPassed, end };
  } finally {
    watching.stop();
  }
}

export async function end() {
  await vitest.close();
}
