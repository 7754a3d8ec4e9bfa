#!/usr/bin/env node
/**
 * `npm run test:mutants -- --sample 20 --seed 1 [--only <part of a path>]`: changes one small thing in the packages that decide, again and
 * again, and looks whether a unit test sees it. A mutant that survives is printed with its place; the last line is `N passed, N failed`.
 */
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { mutantsIn } from "./lib/mutants/mutants-in.mjs";

const root = resolve(import.meta.dirname ?? ".", "..");

/** What is changed, and the tests that must see it: those of the module first, then the others, the quicker before the slower. */
const areas = [
  { source: "packages/machines/src", tests: ["packages/machines/test"] },
  { source: "packages/checkpoint/src", tests: ["packages/checkpoint/test"] },
  { source: "packages/actors/src/controller", tests: ["packages/actors/test"] },
];

/** A mutant that runs for ever is seen, too. */
const limitMs = 300_000;

/** @param {string} folder @returns {string[]} */
function filesUnder(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => join(folder, path))
    .sort();
}

/** The tests of a module: those that are named after it, and those that import it. @param {string} file @param {string[]} tests */
function ownTests(file, tests) {
  const name = basename(file);
  return tests.filter(
    (test) =>
      basename(test) === name.replace(".ts", ".test.ts") ||
      readFileSync(join(root, test), "utf8").includes(`/${name}"`),
  );
}

/**
 * Runs tests on a mutant, or, with `null`, on the sources as they are.
 *
 * @param {import("./lib/mutants/mutants-in.mjs").Mutant | null} mutant
 * @param {string[]} tests
 * @returns {Promise<boolean>} Whether one of them failed, or did not end.
 */
function isSeenBy(mutant, tests) {
  const args = [
    "vitest",
    "run",
    "--config",
    "scripts/lib/mutants/vitest.config.mjs",
    "--project",
    "unit",
    "--bail",
    "1",
    "--reporter",
    "dot",
  ];
  return new Promise((done) => {
    const changed = mutant && { ...mutant, file: join(root, mutant.file) };
    const env = { ...process.env, MUSTER_MUTANT: JSON.stringify(changed) };
    const child = spawn("npx", [...args, ...tests], { cwd: root, env, stdio: "ignore", detached: true });
    const timer = setTimeout(() => process.kill(-(child.pid ?? 0), "SIGKILL"), limitMs);
    child.on("exit", (code) => {
      clearTimeout(timer);
      done(code !== 0);
    });
  });
}

/** Numbers in [0, 1) that a seed gives. @param {number} seed */
function drawsOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const { values } = parseArgs({
  options: {
    sample: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
  },
});
const found = areas.flatMap(({ source, tests }) => {
  const all = tests.flatMap(filesUnder).filter((path) => path.endsWith(".test.ts"));
  return filesUnder(source)
    .filter((file) => file.includes(values.only))
    .flatMap((file) => mutantsIn(file, readFileSync(join(root, file), "utf8")).map((mutant) => ({ mutant, all })));
});
const next = drawsOf(Number(values.seed));
const sample = found
  .map((entry) => ({ ...entry, at: next() }))
  .sort((a, b) => a.at - b.at)
  .slice(0, Number(values.sample));
console.log(`${sample.length} of ${found.length} mutants, seed ${values.seed}`);
for (const tests of new Set(sample.map(({ all }) => all))) {
  if (!(await isSeenBy(null, tests))) continue;
  console.error(
    `without any change a test of ${join(tests[0] ?? "", "..")} fails, so that nothing could be said of a mutant; mend it first`,
  );
  process.exit(2);
}
const survivors = [];
for (const { mutant, all } of sample) {
  const own = ownTests(mutant.file, all);
  const others = all.filter((test) => !own.includes(test));
  const isSeen = (own.length > 0 && (await isSeenBy(mutant, own))) || (await isSeenBy(mutant, others));
  console.log(`${isSeen ? "seen    " : "SURVIVED"} ${relative(".", mutant.file)}:${mutant.line} ${mutant.what}`);
  if (!isSeen) survivors.push(mutant);
}
console.log(`\n${sample.length - survivors.length} passed, ${survivors.length} failed`);
process.exitCode = survivors.length === 0 ? 0 : 1;
