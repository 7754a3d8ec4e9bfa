/** What each test meets without any change, measured once and kept in `.muster/mutants.json` until its file, its helpers or a module that it loads changes. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { filesUnder, root } from "./numbers.mjs";
import { run } from "./ordering.mjs";

const keptIn = join(root, ".muster/mutants.json");

/**
 * A test file: what each of its tests takes and meets, and what is met outside of tests, while it is read; per module the places of mutants in it.
 * @typedef {{ file: string, digest: string, loaded: string[], outside: Met, tests: { id: string, name: string, ms: number, wallMs: number, passed: number, met: Met }[] }} Measured
 * @typedef {Record<string, number[]>} Met
 */

/** Files as they were when this run read them first: one that changes meanwhile is another one for the next run. @type {Map<string, string>} */
const texts = new Map();

/** @param {string} path */
function read(path) {
  const text = texts.get(path) ?? (existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : "");
  texts.set(path, text);
  return text;
}

const own = ["mutants-in", "switched", "switchboard", "runner-in-turn"].map(
  (name) => `scripts/lib/mutants/${name}.mjs`,
);

/** The files of its folder that a test file reads, itself among them: those that it names by a relative path, and those that they name. @param {string} file @param {string} folder */
function readBy(file, folder) {
  const found = new Set([file]);
  for (const path of found)
    for (const [, name = ""] of read(path).matchAll(/["'`](\.{1,2}\/[^"'`]+\.\w+)["'`]/g)) {
      const other = join(dirname(path), name);
      if (other.startsWith(`${folder}/`) && existsSync(join(root, other))) found.add(other);
    }
  return [...found].sort();
}

/** @param {string} file @param {readonly string[]} loaded @param {string} folder */
function digestOf(file, loaded, folder) {
  const hash = createHash("sha256");
  for (const path of [...readBy(file, folder), ...[...loaded].sort(), ...own]) hash.update(`${path}\n${read(path)}\n`);
  return hash.digest("hex");
}

/** @param {ReturnType<typeof import("./numbers.mjs").numbered>} modules @param {{ tests: string }[]} touched @param {readonly string[]} only Parts of the paths of test files; one of them must be there. @param {(text: string) => void} say @returns {Promise<Measured[]>} */
export async function measured(modules, touched, only, say) {
  for (const file of modules.keys()) read(file);
  /** @type {Measured[]} */
  const kept = existsSync(keptIn) ? JSON.parse(readFileSync(keptIn, "utf8")) : [];
  const count = [...modules.values()].reduce((sum, { mutants }) => sum + mutants.length, 0);
  const owners = [...modules].flatMap(([file, { mutants }]) => mutants.map((_, at) => ({ file, at })));
  /** @param {number[]} numbers @returns {Met} */
  const byModule = (numbers) => {
    /** @type {Met} */
    const met = {};
    for (const { file, at } of numbers.flatMap((number) => owners[number] ?? [])) {
      met[file] ??= [];
      met[file].push(at);
    }
    return met;
  };
  /** @type {Measured[]} */
  const all = [];
  for (const { tests } of touched) {
    const isTest = (/** @type {string} */ path) =>
      path.endsWith(".test.ts") && only.some((part) => path.includes(part));
    for (const file of filesUnder(tests).filter(isTest)) {
      const before = kept.find((entry) => entry.file === file);
      if (before && before.digest === digestOf(file, before.loaded, tests)) {
        all.push(before);
        continue;
      }
      all.push(await measure(file, { count, byModule, folder: tests, say }));
      keep([...all, ...kept.filter((entry) => !all.some((one) => one.file === entry.file))]);
    }
  }
  return all;
}

/** @param {Measured[]} entries */
function keep(entries) {
  mkdirSync(dirname(keptIn), { recursive: true });
  writeFileSync(keptIn, JSON.stringify(entries));
}

/**
 * @param {string} file
 * @param {{ count: number, byModule: (numbers: number[]) => Met, folder: string, say: (text: string) => void }} of
 * @returns {Promise<Measured>}
 */
async function measure(file, { count, byModule, folder, say }) {
  const order = { way: "measure", count };
  let answer = await run(file, order, { say });
  // Without a mutant nothing but the machine ends a process: once more.
  if (answer.end !== "ended") answer = await run(file, order, { say });
  const whole = answer.lines.find((line) => line.loaded);
  if (!answer.hasPassed || !whole)
    throw new Error(`${file} fails without any change; mend it first: npx vitest run --project unit ${file}`);
  const { loaded = [], outside = [] } = whole;
  const tests = answer.lines.flatMap(({ test: id, name = "", ms = 0, wallMs = 0, passed = 0, met }) =>
    id !== undefined && met ? [{ id, name, ms, wallMs, passed, met: byModule(met) }] : [],
  );
  say(`measured ${file}: ${tests.length} tests`);
  return { file, digest: digestOf(file, loaded, folder), loaded, outside: byModule(outside), tests };
}
