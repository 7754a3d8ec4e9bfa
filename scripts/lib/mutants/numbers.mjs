/** All mutants, each with a number, and the modules with all of theirs behind these numbers. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { mutantsIn } from "./mutants-in.mjs";

export const root = resolve(import.meta.dirname, "../../..");

/** What is changed, and the tests that must see it. Of the checkers the simulator's deliberate bugs show that they see: too slow for a mutant each. */
export const areas = [
  { source: "packages/machines/src", tests: "packages/machines/test" },
  { source: "packages/checkpoint/src", tests: "packages/checkpoint/test" },
  { source: "packages/actors/src/controller", tests: "packages/actors/test" },
];

/** @param {string} folder @returns {string[]} */
export function filesUnder(folder) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => join(folder, path))
    .sort();
}

/** Per module its mutants; the number of a mutant is that of the module's first one and its place among them. @returns {Map<string, { first: number, mutants: import("./mutants-in.mjs").Mutant[] }>} */
export function numbered() {
  const modules = new Map();
  let first = 0;
  for (const file of areas.flatMap(({ source }) => filesUnder(source))) {
    const mutants = mutantsIn(file, readFileSync(join(root, file), "utf8"));
    modules.set(file, { first, mutants });
    first += mutants.length;
  }
  return modules;
}
