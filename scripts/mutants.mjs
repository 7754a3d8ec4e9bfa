#!/usr/bin/env node
/**
 * `npm run test:mutants`: changes one small thing in the packages that decide, again and again, and looks whether a unit test sees it. `--help` lists its
 * options. One that survives is printed with its place; the last line is `N passed, N failed`, and how many got no answer, if any.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { measured } from "./lib/mutants/measure.mjs";
import { areas, numbered, root } from "./lib/mutants/numbers.mjs";
import { end } from "./lib/mutants/ordering.mjs";
import { Trial } from "./lib/mutants/trial.mjs";
import { Tried } from "./lib/mutants/tried.mjs";

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

const help = `npm run test:mutants -- [options]

  --sample <number>   so many mutants, drawn by the seed (default 20)
  --all               every mutant
  --seed <number>     chooses the sample (default: the number of commits, so that each commit meets other mutants)
  --only <text>       only mutants whose path:line contains this text
  --tests <texts>     only test files whose path contains one of these texts (a,b,c)
  --within <seconds>  computing time of the tests that try a mutant, for each (default 60)
  --unmet             runs no test on a mutant: lists the mutants that no test evaluates
  --fresh             tries again what .muster/mutants-tried.json knows as detected

Exit status 0: each was detected; 1: some were not, or got no answer; 2: the options are wrong.`;

/** @param {string} problem @returns {never} */
function refuse(problem) {
  console.error(`${problem}; --help lists the options`);
  process.exit(2);
}

function options() {
  try {
    return parseArgs({
      options: {
        sample: { type: "string", default: "20" },
        all: { type: "boolean", default: false },
        seed: { type: "string" },
        within: { type: "string", default: "60" },
        only: { type: "string", default: "" },
        tests: { type: "string", default: "" },
        unmet: { type: "boolean", default: false },
        fresh: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
}

const values = options();
if (values.help) {
  console.log(help);
  process.exit(0);
}
for (const option of /** @type {const} */ (["sample", "within"]))
  if (!(Number(values[option]) > 0)) refuse(`--${option} is ${values[option]}; it must be a number above 0`);
if (values.seed !== undefined && !Number.isInteger(Number(values.seed)))
  refuse(`--seed is ${values.seed}; it must be a whole number`);
const modules = numbered();
const everything = [...modules.values()].flatMap(({ first, mutants }) =>
  mutants.map((mutant, i) => ({ mutant, number: first + i })),
);
const found = everything.filter(({ mutant: { file, line } }) => `${file}:${line}`.includes(values.only));
if (found.length === 0) refuse(`--only is ${values.only}; no place of a mutant contains that`);
const isWhole = values.all || values.unmet || found.length <= Number(values.sample);
const commits = () => execFileSync("git", ["rev-list", "--count", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
const seed = isWhole ? "" : (values.seed ?? commits());
const next = drawsOf(Number(seed));
const sample = found
  .map((entry) => ({ ...entry, at: next() }))
  .sort((a, b) => a.at - b.at)
  .slice(0, isWhole ? found.length : Number(values.sample))
  .sort((a, b) => a.number - b.number);
console.log(`${sample.length} of ${found.length} mutants${isWhole ? "" : `, seed ${seed}`}`);

/** @param {string} file Of a module. */
const areaOf = (file) => areas.find(({ source }) => file.startsWith(`${source}/`));
const touched = areas.filter((area) => sample.some(({ mutant }) => areaOf(mutant.file) === area));
const tried = new Tried();
/** Tells how far it is, and keeps what is known by then. @param {string} text */
function say(text) {
  console.log(text);
  tried.save();
}
const files = await measured(modules, touched, values.tests.split(","), say);
/** The numbers of what a test file of a package meets in this package. @param {string} file @param {Record<string, number[]>} met */
const numbersOf = (file, met) =>
  Object.entries(met)
    .filter(([module]) => file.startsWith(`${areaOf(module)?.tests}/`))
    .flatMap(([module, places]) => places.map((at) => (modules.get(module)?.first ?? 0) + at));
const tests = files.flatMap(({ file, tests }) =>
  tests.map((test) => ({ ...test, file, met: numbersOf(file, test.met), modules: Object.keys(test.met) })),
);
const outside = files.map(({ file, outside }) => ({ file, met: new Set(numbersOf(file, outside)) }));
const meetings = new Map(sample.map(({ number }) => [number, 0]));
for (const { met } of [...tests, ...outside])
  for (const number of met) meetings.set(number, (meetings.get(number) ?? 0) + 1);

/** Detected in an earlier run, by the test file. @type {Map<number, string>} */
const known = new Map();
for (const { mutant, number } of values.fresh || values.unmet ? [] : sample) {
  const where = tried.whereSeen(mutant);
  if (where) known.set(number, where);
}
if (known.size > 0) say(`detected before, and not tried again: ${known.size}`);
const chosen = new Set(sample.map(({ number }) => number).filter((number) => !known.has(number)));
const count = everything.length;
const moduleOf = (/** @type {number} */ number) => everything[number]?.mutant.file ?? "";
const textOf = new Map(files.map(({ file }) => [file, readFileSync(join(root, file), "utf8")]));
/** @param {string} file @param {number} number */
const isOwn = (file, number) => textOf.get(file)?.includes(`/${basename(moduleOf(number))}"`) ?? false;
const withinMs = Number(values.within) * 1000;
/** @param {number} number @param {string} where */
const onSeen = (number, where) => {
  const mutant = everything[number]?.mutant;
  if (mutant) tried.keep(mutant, where);
};
const trial = new Trial({ chosen, tests, outside, count, withinMs, moduleOf, isOwn, say, onSeen });
/** @param {number} number */
function isLost(number) {
  return values.unmet ? meetings.get(number) === 0 : !known.has(number) && !trial.seen.has(number);
}
/** Lost for no reason that is known of. @param {number} number */
const isSilent = (number) => !values.unmet && isLost(number) && trial.silent.has(number);

/** Those that are not seen, the share of each folder, and the sum. */
function tell() {
  tried.save();
  const lost = sample.filter(({ number }) => isLost(number));
  for (const { mutant, number } of lost)
    console.log(
      `${isSilent(number) ? "NO ANSWER" : meetings.get(number) ? "SURVIVED" : "UNMET   "} ${mutant.file}:${mutant.line} ${mutant.what}`,
    );
  console.log();
  for (const folder of new Set(sample.map(({ mutant }) => dirname(mutant.file)))) {
    const here = sample.filter(({ mutant }) => dirname(mutant.file) === folder);
    const seenHere = here.filter(({ number }) => !isLost(number)).length;
    const share = ((100 * seenHere) / here.length).toFixed(1).padStart(5);
    console.log(`${share} %  ${seenHere} of ${here.length}  ${folder}`);
  }
  const silent = lost.filter(({ number }) => isSilent(number)).length;
  const apart = silent > 0 ? `, ${silent} without an answer` : "";
  console.log(`\n${sample.length - lost.length} passed, ${lost.length - silent} failed${apart}`);
  process.exit(lost.length === 0 ? 0 : 1);
}

// Whoever stops it hears what was not seen so far.
process.once("SIGINT", tell).once("SIGTERM", tell);
if (!values.unmet) await trial.run();
await end();
tell();
