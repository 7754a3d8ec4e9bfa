#!/usr/bin/env node
/**
 * `npm run test:mutants -- --sample 20 --seed 1 [--only <part of path:line>]`: changes one small thing in the packages that decide, again and
 * again, and looks whether a unit test sees it. Without a seed it is the number of commits, so that each commit meets other mutants. One that
 * survives is printed with its place; the last line is `N passed, N failed`.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { placeAround } from "./lib/mutants/marks.mjs";
import { mutantsIn } from "./lib/mutants/mutants-in.mjs";

const root = resolve(import.meta.dirname ?? ".", "..");

/** What is changed, and the tests that must see it. Of the checkers the simulator's deliberate bugs show that they see: too slow for a mutant each. */
const areas = [
  { source: "packages/machines/src", tests: ["packages/machines/test"] },
  { source: "packages/checkpoint/src", tests: ["packages/checkpoint/test"] },
  { source: "packages/actors/src/controller", tests: ["packages/actors/test"] },
];

/** Longest run of all tests. */
const limitMs = 600_000;
/** A mutant that runs for ever is seen, too: so much for the start, and so many times what its tests take by themselves. */
const startMs = 30_000;
const patience = 4;

/** A test file, the time that it takes, and the places of modules that it enters. @typedef {{ test: string, ms: number, entered: Set<string> }} Reach */

/** @param {string} folder @returns {string[]} */
function filesUnder(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => join(folder, path))
    .sort();
}

/** Whether a test is named after a module, or imports it. @param {string} test @param {string} file */
function isOwn(test, file) {
  const name = basename(file);
  return (
    basename(test) === name.replace(".ts", ".test.ts") || readFileSync(join(root, test), "utf8").includes(`/${name}"`)
  );
}

/** What comes by the place of a mutant: the tests of the module first, then the quicker before the slower. @param {import("./lib/mutants/mutants-in.mjs").Mutant} mutant @param {readonly Reach[]} reaches */
function reachesOf(mutant, reaches) {
  const place = placeAround(mutant.file, readFileSync(join(root, mutant.file), "utf8"), mutant.start);
  return reaches
    .filter(({ entered }) => entered.has(place))
    .map((reach) => ({ ...reach, rank: isOwn(reach.test, mutant.file) ? 0 : 1 }))
    .sort((a, b) => a.rank - b.rank || a.ms - b.ms);
}

/**
 * @param {string[]} tests
 * @param {NodeJS.ProcessEnv} env
 * @param {number} withinMs
 * @returns {Promise<boolean>} Whether one of the tests failed, or did not end.
 */
function failsAny(tests, env, withinMs) {
  const config = ["--config", "scripts/lib/mutants/vitest.config.mjs"];
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const args = [vitest, "run", ...config, "--project", "unit", "--bail", "1", "--reporter", "dot", ...tests];
  // One process that keeps the modules it read is several times as fast; what each file enters is seen only where it reads them itself.
  if (env.MUSTER_MUTANT) args.push("--no-isolate", "--maxWorkers=1");
  return new Promise((done) => {
    const options = { cwd: root, env: { ...process.env, ...env }, detached: true };
    const child = spawn(process.execPath, args, { ...options, stdio: "ignore" });
    const timer = setTimeout(() => process.kill(-(child.pid ?? 0), "SIGKILL"), withinMs);
    child.on("exit", (code) => {
      clearTimeout(timer);
      done(code !== 0);
    });
  });
}

/** What each test file enters; `null` where one fails without any change. @param {string[]} sources @param {string[]} tests @returns {Promise<Reach[] | null>} */
async function reachOf(sources, tests) {
  const folder = mkdtempSync(join(tmpdir(), "muster-mutants-"));
  try {
    const env = { MUSTER_MUTANTS_MARKED: JSON.stringify(sources), MUSTER_MUTANTS_ENTERED: folder };
    if (await failsAny(tests, env, limitMs)) return null;
    return readdirSync(folder).map((name) => {
      const { test, ms, entered } = JSON.parse(readFileSync(join(folder, name), "utf8"));
      return { test: relative(root, test), ms, entered: new Set(entered) };
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
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
    seed: { type: "string" },
    only: { type: "string", default: "" },
  },
});
const found = areas.flatMap((area) =>
  filesUnder(area.source)
    .flatMap((file) => mutantsIn(file, readFileSync(join(root, file), "utf8")))
    .filter(({ file, line }) => `${file}:${line}`.includes(values.only))
    .map((mutant) => ({ mutant, area })),
);
const seed =
  values.seed ?? execFileSync("git", ["rev-list", "--count", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
const next = drawsOf(Number(seed));
const sample = found
  .map((entry) => ({ ...entry, at: next() }))
  .sort((a, b) => a.at - b.at)
  .slice(0, Number(values.sample));
console.log(`${sample.length} of ${found.length} mutants, seed ${seed}`);
const touched = [...new Set(sample.map(({ area }) => area))];
const reaches = await reachOf(
  touched.map(({ source }) => source),
  [...new Set(touched.flatMap(({ tests }) => tests))],
);
if (reaches === null) {
  console.error(
    "without any change a test fails, so that nothing could be said of a mutant; mend it first: npx vitest run --project unit " +
      touched.flatMap(({ tests }) => tests).join(" "),
  );
  process.exit(2);
}
const survivors = [];
for (const { mutant, area } of sample) {
  const near = reaches.filter(({ test }) => area.tests.some((folder) => test.startsWith(`${folder}/`)));
  const met = reachesOf(mutant, near);
  const tests = met.map(({ test }) => test);
  const withinMs = startMs + patience * met.reduce((sum, { ms }) => sum + ms, 0);
  const env = { MUSTER_MUTANT: JSON.stringify(mutant), MUSTER_MUTANTS_ORDER: JSON.stringify(tests) };
  const isSeen = tests.length > 0 && (await failsAny(tests, env, withinMs));
  console.log(`${isSeen ? "seen    " : "SURVIVED"} ${mutant.file}:${mutant.line} ${mutant.what}`);
  if (!isSeen) survivors.push(mutant);
}
console.log(`\n${sample.length - survivors.length} passed, ${survivors.length} failed`);
process.exitCode = survivors.length === 0 ? 0 : 1;
