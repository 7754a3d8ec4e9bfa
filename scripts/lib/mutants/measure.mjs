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

/** @param {string} path */
function read(path) {
  return existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : "";
}

const own = ["mutants-in", "switched", "switchboard", "runner-in-turn"].map(
  (name) => `scripts/lib/mutants/${name}.mjs`,
);

/** @param {string} file @param {readonly string[]} loaded @param {readonly string[]} helpers */
function digestOf(file, loaded, helpers) {
  const hash = createHash("sha256");
  for (const path of [file, ...helpers, ...[...loaded].sort(), ...own]) hash.update(`${path}\n${read(path)}\n`);
  return hash.digest("hex");
}

/** @param {ReturnType<typeof import("./numbers.mjs").numbered>} modules @param {{ tests: string }[]} touched @param {(text: string) => void} say @returns {Promise<Measured[]>} */
export async function measured(modules, touched, say) {
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
    const files = filesUnder(tests);
    const helpers = files.filter((file) => !file.endsWith(".test.ts"));
    for (const file of files.filter((path) => path.endsWith(".test.ts"))) {
      const before = kept.find((entry) => entry.file === file);
      if (before && before.digest === digestOf(file, before.loaded, helpers)) {
        all.push(before);
        continue;
      }
      all.push(await measure(file, { count, byModule, helpers, say }));
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
 * @param {{ count: number, byModule: (numbers: number[]) => Met, helpers: string[], say: (text: string) => void }} of
 * @returns {Promise<Measured>}
 */
async function measure(file, { count, byModule, helpers, say }) {
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
  return { file, digest: digestOf(file, loaded, helpers), loaded, outside: byModule(outside), tests };
}
