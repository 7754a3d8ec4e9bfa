#!/usr/bin/env node
/**
 * `node scripts/record-golden.mjs`: records the golden journals of this version that come from the simulator: the plan of a job and every input
 * of its controller, one a line, compressed. `packages/machines/test/golden.test.ts` replays them; `npm run golden` then notes where they end.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { controllerLogic } from "../packages/machines/dist/index.js";
import { drawScenario, runScenario } from "../packages/sim/dist/index.js";

/** Jobs that between them reach most of what a controller decides: fleets with devices and ranks, operators, lost controllers. @type {readonly (readonly [import("../packages/sim/dist/index.js").Profile, number])[]} */
const jobs = [
  ["fleet", 1],
  ["fleet", 5],
  ["fleet", 6],
  ["fleet", 7],
  ["fleet", 11],
  ["fleet", 12],
  ["kills", 4],
  ["swarm", 3],
  ["swarm", 11],
  ["thieves", 4],
];

const root = resolve(import.meta.dirname, "..");
const folder = join(root, "packages/machines/test/golden");

/** The inputs that led to a snapshot, the last one first. @typedef {{ count: number, event: unknown, before: Inputs | null }} Inputs */

/** @param {import("../packages/sim/dist/index.js").Profile} profile @param {number} seed */
async function journalOf(profile, seed) {
  const drawn = drawScenario(seed, profile);
  // Without snapshots a new controller folds all of the journal, so that the last one has heard everything.
  const limits = { ...drawn.config.limits, snapshotRecords: 1_000_000 };
  /** @type {WeakMap<object, Inputs>} */
  const ledTo = new WeakMap();
  /** @type {Inputs | null} */
  let longest = null;
  /** @type {unknown} */
  let plan = null;
  /** @type {typeof controllerLogic} */
  const logic = {
    ...controllerLogic,
    init(input) {
      plan = input;
      const step = controllerLogic.init(input);
      ledTo.delete(step.snapshot);
      return step;
    },
    step(snapshot, event) {
      const step = controllerLogic.step(snapshot, event);
      const before = ledTo.get(snapshot) ?? null;
      const inputs = { count: (before?.count ?? 0) + 1, event, before };
      ledTo.set(step.snapshot, inputs);
      if (inputs.count > (longest?.count ?? 0)) longest = inputs;
      return step;
    },
  };
  const { violations } = await runScenario({ ...drawn, config: { ...drawn.config, limits } }, { logic });
  if (violations.length > 0) throw new Error(`${profile} ${seed} breaks ${violations[0]?.invariant}`);
  const events = [];
  for (let each = /** @type {Inputs | null} */ (longest); each; each = each.before) events.push(each.event);
  const text = [plan, ...events.reverse()].map((line) => `${JSON.stringify(line)}\n`).join("");
  // Stack frames in reports name the checkout.
  return text.replaceAll(root, "/muster");
}

const { version } = JSON.parse(readFileSync(join(root, "packages/machines/package.json"), "utf8"));
mkdirSync(folder, { recursive: true });
for (const [profile, seed] of jobs) {
  const text = await journalOf(profile, seed);
  writeFileSync(join(folder, `${version}-${profile}-${seed}.jsonl.gz`), gzipSync(text, { level: 9 }));
  console.log(`${profile} ${seed}: ${text.split("\n").length - 2} inputs`);
}
