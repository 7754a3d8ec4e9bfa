#!/usr/bin/env node
/**
 * `node scripts/record-golden.mjs`: records the golden journals of this version that come from the simulator: the plan of a job and every input
 * of its controller, one a line, compressed. Beside each go the lives of its replicas: what each was told, for the lives in which something
 * happens that happened in none before. `packages/machines/test/golden*.test.ts` replay them; `npm run golden` then notes where they end.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { controllerLogic } from "../packages/machines/dist/controller/index.js";
import { drawScenario, runScenario } from "../packages/sim/dist/index.js";

/** Jobs that between them execute most of the rules: chosen by the blocks that each adds to the ones before it. @type {readonly (readonly [import("../packages/sim/dist/index.js").Profile, number])[]} */
const jobs = [
  ["fleet", 1],
  ["fleet", 17],
  ["broker", 24],
  ["fleet", 16],
  ["swarm", 7],
  ["drift", 6],
  ["fleet", 5],
  ["storage", 14],
  ["quiet", 1],
  ["drift", 15],
  ["swarm", 18],
  ["thieves", 14],
  ["swarm", 21],
  ["storage", 12],
  ["kills", 11],
  ["fleet", 2],
  ["liars", 14],
];

const root = resolve(import.meta.dirname, "..");
const folder = join(root, "packages/machines/test/golden");

/** The inputs that led to a snapshot, the last one first. @typedef {{ count: number, event: unknown, before: Inputs | null }} Inputs */

/** What a replica heard between its admission and its end, and what makes the life worth keeping. @typedef {{ role: string, lines: unknown[], moves: Set<string> }} Life */

/** Puts down the lives of the replicas that run under a role. @param {Life[]} lives @returns {NonNullable<import("../packages/sim/dist/cluster/bug.js").Bug["role"]>} */
function listening(lives) {
  return (role) => {
    /** @type {Life} */
    let life = { role: role.role, lines: [], moves: new Set() };
    /** @type {typeof role.logic} */
    const logic = {
      ...role.logic,
      init(input) {
        life = { role: role.role, lines: [input], moves: new Set() };
        lives.push(life);
        return role.logic.init(input);
      },
      step(snapshot, event) {
        const step = role.logic.step(snapshot, event);
        const { value } = /** @type {{ value: unknown }} */ (snapshot);
        life.lines.push(event);
        life.moves.add(JSON.stringify([role.role, value, event.type, step.effects.map(({ type }) => type)]));
        return step;
      },
    };
    return { ...role, logic };
  };
}

/** Everything that a kept life has shown. @type {Set<string>} */
const seen = new Set();

/** The lives that show something new, the first ones first. @param {Life[]} lives */
function worthKeeping(lives) {
  return lives.filter(({ moves }) => {
    const before = seen.size;
    for (const move of moves) seen.add(move);
    return seen.size > before;
  });
}

/** Stack frames in reports name the checkout. @param {readonly unknown[]} lines */
function textOf(lines) {
  return lines
    .map((line) => `${JSON.stringify(line)}\n`)
    .join("")
    .replaceAll(root, "/muster");
}

/** @param {import("../packages/sim/dist/index.js").Profile} profile @param {number} seed */
async function record(profile, seed) {
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
  /** @type {Life[]} */
  const lives = [];
  const bug = { logic, role: listening(lives) };
  const { violations } = await runScenario({ ...drawn, config: { ...drawn.config, limits } }, bug);
  if (violations.length > 0) throw new Error(`${profile} ${seed} breaks ${violations[0]?.invariant}`);
  const events = [];
  for (let each = /** @type {Inputs | null} */ (longest); each; each = each.before) events.push(each.event);
  const kept = worthKeeping(lives);
  return {
    journal: textOf([plan, ...events.reverse()]),
    inputs: events.length,
    lives: textOf(kept.map(({ role, lines }) => [role, ...lines])),
    kept: kept.length,
  };
}

const { version } = JSON.parse(readFileSync(join(root, "packages/machines/package.json"), "utf8"));
mkdirSync(folder, { recursive: true });
for (const [profile, seed] of jobs) {
  const { journal, inputs, lives, kept } = await record(profile, seed);
  const name = join(folder, `${version}-${profile}-${seed}`);
  writeFileSync(`${name}.jsonl.gz`, gzipSync(journal, { level: 9 }));
  if (kept > 0) writeFileSync(`${name}.lives.gz`, gzipSync(lives, { level: 9 }));
  console.log(`${profile} ${seed}: ${inputs} inputs of the controller, ${kept} lives of replicas`);
}
