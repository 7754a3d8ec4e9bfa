#!/usr/bin/env node
/**
 * `npm run test:mutants -- --sample 20 --seed 1 [--only <part of path:line>] [--unmet]`: changes one small thing in the packages that decide, again
 * and again, and looks whether a unit test sees it. Without a seed it is the number of commits, so that each commit meets other mutants. One that
 * survives is printed with its place; the last line is `N passed, N failed`. With `--unmet` no test runs on a mutant: it lists those that no test enters.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { endAsking, isSeenBy } from "./lib/mutants/asking.mjs";
import { mutantsIn } from "./lib/mutants/mutants-in.mjs";
import { filesUnder, reachesOf, reachOf } from "./lib/mutants/reach.mjs";

const root = resolve(import.meta.dirname ?? ".", "..");

/** What is changed, and the tests that must see it. Of the checkers the simulator's deliberate bugs show that they see: too slow for a mutant each. */
const areas = [
  { source: "packages/machines/src", tests: ["packages/machines/test"] },
  { source: "packages/checkpoint/src", tests: ["packages/checkpoint/test"] },
  { source: "packages/actors/src/controller", tests: ["packages/actors/test"] },
];

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
    unmet: { type: "boolean", default: false },
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
  .slice(0, values.unmet ? found.length : Number(values.sample));
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
for (const [at, { mutant, area }] of sample.entries()) {
  const near = reaches.filter(({ test }) => area.tests.some((folder) => test.startsWith(`${folder}/`)));
  const met = reachesOf(mutant, near);
  const isSeen = met.length > 0 && (values.unmet || (await isSeenBy(mutant, met)));
  const said = isSeen ? "seen    " : met.length > 0 ? "SURVIVED" : "UNMET   ";
  if (!(isSeen && values.unmet))
    console.log(`${at + 1}/${sample.length} ${said} ${mutant.file}:${mutant.line} ${mutant.what}`);
  if (!isSeen) survivors.push(mutant);
}
endAsking();
console.log(`\n${sample.length - survivors.length} passed, ${survivors.length} failed`);
process.exitCode = survivors.length === 0 ? 0 : 1;
