/** What each test file enters, measured once and kept in `.muster/mutants.json` until the file, its helpers or a module that it enters changes. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative, resolve } from "node:path";
import { placeAround } from "./marks.mjs";

const root = resolve(import.meta.dirname, "../../..");
const keptIn = join(root, ".muster/mutants.json");
/** Longest run of all tests. */
const limitMs = 900_000;

/** The time that a test file takes, the places of modules that it enters, and of what state of the sources this was measured. @typedef {{ test: string, ms: number, entered: Set<string>, digest: string }} Reach */

/** @param {string} folder @returns {string[]} */
export function filesUnder(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => join(folder, path))
    .sort();
}

/** @param {string} path */
function read(path) {
  return existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : "";
}

/** Of everything that says what a test file enters: a module that it could enter is at least read by it. @param {string} test @param {Iterable<string>} entered @param {readonly string[]} helpers */
function digestOf(test, entered, helpers) {
  const hash = createHash("sha256");
  const modules = new Set([...entered].map((place) => place.split("#")[0] ?? ""));
  for (const path of [test, ...helpers, ...[...modules].sort(), "scripts/lib/mutants/marks.mjs"])
    hash.update(`${path}\n${read(path)}\n`);
  return hash.digest("hex");
}

/** @returns {Reach[]} */
function kept() {
  if (!existsSync(keptIn)) return [];
  /** @type {Reach[]} */
  const reaches = JSON.parse(readFileSync(keptIn, "utf8"));
  return reaches.map((reach) => ({ ...reach, entered: new Set(reach.entered) }));
}

/** @param {string[]} args @param {NodeJS.ProcessEnv} env @returns {Promise<boolean>} */
function passes(args, env) {
  const config = ["--config", "scripts/lib/mutants/vitest.config.mjs", "--project", "unit"];
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  return new Promise((done) => {
    const options = { cwd: root, env: { ...process.env, ...env }, detached: true };
    const child = spawn(process.execPath, [vitest, "run", ...config, "--reporter", "dot", ...args], {
      ...options,
      stdio: "ignore",
    });
    const timer = setTimeout(() => process.kill(-(child.pid ?? 0), "SIGKILL"), limitMs);
    child.on("exit", (code) => {
      clearTimeout(timer);
      done(code === 0);
    });
  });
}

/**
 * @param {string[]} sources Folders of modules.
 * @param {string[]} folders Folders of tests.
 * @returns {Promise<Reach[] | null>} `null` where a test fails without any change.
 */
export async function reachOf(sources, folders) {
  const files = folders.flatMap(filesUnder);
  const all = files.filter((file) => !file.endsWith(".test.ts"));
  /** Those of the same package. @param {string} test */
  const helpersOf = (test) => all.filter((file) => test.split("/")[1] === file.split("/")[1]);
  const tests = files.filter((file) => file.endsWith(".test.ts"));
  const old = kept();
  const fresh = old.filter(
    ({ test, entered, digest }) => tests.includes(test) && digest === digestOf(test, entered, helpersOf(test)),
  );
  const missing = tests.filter((test) => !fresh.some((reach) => reach.test === test));
  if (missing.length === 0) return fresh;
  console.log(`measures what ${missing.length} of ${tests.length} test files enter`);
  const folder = mkdtempSync(join(tmpdir(), "muster-mutants-"));
  try {
    const env = { MUSTER_MUTANTS_MARKED: JSON.stringify(sources), MUSTER_MUTANTS_ENTERED: folder };
    if (!(await passes(missing, env))) return null;
    const measured = readdirSync(folder).map((name) => {
      const note = JSON.parse(readFileSync(join(folder, name), "utf8"));
      const test = relative(root, note.test);
      return {
        test,
        ms: note.ms,
        entered: new Set(note.entered),
        digest: digestOf(test, note.entered, helpersOf(test)),
      };
    });
    const others = old.filter(({ test }) => !tests.includes(test));
    const known = [...others, ...fresh, ...measured].map((reach) => ({ ...reach, entered: [...reach.entered] }));
    writeFileSync(keptIn, JSON.stringify(known));
    return [...fresh, ...measured];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Whether a test is named after a module, or imports it. @param {string} test @param {string} file */
function isOwn(test, file) {
  const name = basename(file);
  return basename(test) === name.replace(".ts", ".test.ts") || read(test).includes(`/${name}"`);
}

/** What comes by the place of a mutant: the tests of the module first, then the quicker before the slower. @param {import("./mutants-in.mjs").Mutant} mutant @param {readonly Reach[]} reaches */
export function reachesOf(mutant, reaches) {
  const place = placeAround(mutant.file, read(mutant.file), mutant.start);
  return reaches
    .filter(({ entered }) => entered.has(place))
    .map((reach) => ({ ...reach, rank: isOwn(reach.test, mutant.file) ? 0 : 1 }))
    .sort((a, b) => a.rank - b.rank || a.ms - b.ms);
}
