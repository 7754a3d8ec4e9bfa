/**
 * The tests of one mutant after another, in one vitest that reads the sources once: a message `{ mutant, tests }` is answered with whether one of
 * the tests failed. Each mutant has a worker of its own, so that nothing stays of the one before.
 */
import { resolve } from "node:path";
import { createVitest } from "vitest/node";

const root = resolve(import.meta.dirname, "../../..");
const vitest = await createVitest("test", {
  config: resolve(import.meta.dirname, "vitest.config.mjs"),
  project: ["unit"],
  watch: false,
  bail: 1,
  isolate: false,
  maxWorkers: 1,
  reporters: [{}],
});

/** @type {import("./mutants-in.mjs").Mutant | undefined} */
let before;
process.on("message", async (/** @type {{ mutant: import("./mutants-in.mjs").Mutant, tests: string[] }} */ asked) => {
  Reflect.set(globalThis, "asked", asked);
  for (const { file } of [before ?? asked.mutant, asked.mutant]) vitest.invalidateFile(resolve(root, file));
  before = asked.mutant;
  // What failed for an earlier mutant would end this run before its first test.
  vitest.state.filesMap.clear();
  vitest.state.idMap.clear();
  const specifications = await vitest.getRelevantTestSpecifications(asked.tests.map((test) => resolve(root, test)));
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
  process.send?.(unhandledErrors.length > 0 || testModules.some((module) => !module.ok()));
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
