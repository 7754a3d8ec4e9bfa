#!/usr/bin/env node
/**
 * `npm run test:mutants -- --sample 20 --seed 1 [--all] [--within <seconds>] [--only <part of path:line>] [--unmet]`: changes one small thing in the
 * packages that decide, again and again, and looks whether a unit test sees it, of so many seconds of tests for each. Without a seed it is the number of
 * commits, so that each commit meets other mutants. One that survives is printed with its place; the last line is `N passed, N failed`. With `--unmet`
 * no test runs on a mutant: it lists those that no test meets.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { measured } from "./lib/mutants/measure.mjs";
import { areas, numbered, root } from "./lib/mutants/numbers.mjs";
import { end } from "./lib/mutants/ordering.mjs";
import { Trial } from "./lib/mutants/trial.mjs";

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
    all: { type: "boolean", default: false },
    seed: { type: "string" },
    within: { type: "string", default: "60" },
    only: { type: "string", default: "" },
    unmet: { type: "boolean", default: false },
  },
});
for (const option of /** @type {const} */ (["sample", "within"]))
  if (!(Number(values[option]) > 0)) {
    console.error(`--${option} is ${values[option]}; it must be a number above 0`);
    process.exit(2);
  }
const modules = numbered();
const everything = [...modules.values()].flatMap(({ first, mutants }) =>
  mutants.map((mutant, i) => ({ mutant, number: first + i })),
);
const found = everything.filter(({ mutant: { file, line } }) => `${file}:${line}`.includes(values.only));
const seed =
  values.seed ?? execFileSync("git", ["rev-list", "--count", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
const next = drawsOf(Number(seed));
const sample = found
  .map((entry) => ({ ...entry, at: next() }))
  .sort((a, b) => a.at - b.at)
  .slice(0, values.all || values.unmet ? found.length : Number(values.sample))
  .sort((a, b) => a.number - b.number);
console.log(`${sample.length} of ${found.length} mutants${sample.length < found.length ? `, seed ${seed}` : ""}`);

/** @param {string} file Of a module. */
const areaOf = (file) => areas.find(({ source }) => file.startsWith(`${source}/`));
const touched = areas.filter((area) => sample.some(({ mutant }) => areaOf(mutant.file) === area));
const files = await measured(modules, touched);
/** The numbers of what a test file of a package meets in this package. @param {string} file @param {Record<string, number[]>} met */
const numbersOf = (file, met) =>
  Object.entries(met)
    .filter(([module]) => file.startsWith(`${areaOf(module)?.tests}/`))
    .flatMap(([module, places]) => places.map((at) => (modules.get(module)?.first ?? 0) + at));
const tests = files.flatMap(({ file, tests }) =>
  tests.map((test) => ({ ...test, file, met: numbersOf(file, test.met) })),
);
const outside = files.map(({ file, outside }) => ({ file, met: new Set(numbersOf(file, outside)) }));
const meetings = new Map(sample.map(({ number }) => [number, 0]));
for (const { met } of [...tests, ...outside])
  for (const number of met) meetings.set(number, (meetings.get(number) ?? 0) + 1);

const chosen = new Set(sample.map(({ number }) => number));
const count = everything.length;
/** @param {string} file @param {number} number */
const isOwn = (file, number) =>
  readFileSync(join(root, file), "utf8").includes(`/${basename(everything[number]?.mutant.file ?? "")}"`);
const withinMs = Number(values.within) * 1000;
const trial = new Trial({ chosen, tests, outside, count, withinMs, isOwn, say: (text) => console.log(text) });
const isLost = (/** @type {number} */ number) => (values.unmet ? meetings.get(number) === 0 : !trial.seen.has(number));

/** Those that are not seen, the share of each folder, and the sum. */
function tell() {
  const lost = sample.filter(({ number }) => isLost(number));
  for (const { mutant, number } of lost)
    console.log(`${meetings.get(number) ? "SURVIVED" : "UNMET   "} ${mutant.file}:${mutant.line} ${mutant.what}`);
  console.log();
  for (const folder of new Set(sample.map(({ mutant }) => dirname(mutant.file)))) {
    const here = sample.filter(({ mutant }) => dirname(mutant.file) === folder);
    const seenHere = here.filter(({ number }) => !isLost(number)).length;
    const share = ((100 * seenHere) / here.length).toFixed(1).padStart(5);
    console.log(`${share} %  ${seenHere} of ${here.length}  ${folder}`);
  }
  console.log(`\n${sample.length - lost.length} passed, ${lost.length} failed`);
  process.exit(lost.length === 0 ? 0 : 1);
}

// Whoever stops it hears what was not seen so far.
process.once("SIGINT", tell).once("SIGTERM", tell);
if (!values.unmet) await trial.run();
await end();
tell();
