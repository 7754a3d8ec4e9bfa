#!/usr/bin/env node
/**
 * `npm run verify`: everything that can be said about the sources without starting a server or a process of Muster, one line per
 * step. `--static` leaves out the steps that `npm test` runs too.
 */
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main, UsageError } from "./lib/main.mjs";
import { root } from "./lib/paths.mjs";
import { runCommand } from "./lib/run-command.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";
import { conclude, one, sumOf } from "./lib/tally.mjs";

const usage = "usage: npm run verify [-- --static]     --static: only format, lint, types and dead code";

/** @type {readonly { name: string, command: readonly string[], alsoInTests: boolean }[]} */
const steps = [
  { name: "format", command: ["@biomejs/biome/bin/biome", "check", "--linter-enabled=false", "."], alsoInTests: false },
  { name: "lint", command: ["@biomejs/biome/bin/biome", "lint", "--error-on-warnings", "."], alsoInTests: false },
  { name: "types", command: ["typescript/bin/tsc", "-b"], alsoInTests: false },
  {
    name: "types of tests and scripts",
    command: ["typescript/bin/tsc", "-p", "tsconfig.tools.json"],
    alsoInTests: false,
  },
  { name: "dead code", command: ["knip/bin/knip.js", "--no-config-hints"], alsoInTests: false },
  { name: "boundaries, limits, docs", command: ["vitest/vitest.mjs", "run", "--project", "repo"], alsoInTests: true },
  { name: "unit tests", command: ["vitest/vitest.mjs", "run", "--project", "unit"], alsoInTests: true },
];

/** Runs one step; its output is shown only when it fails. @param {typeof steps[number]} step @param {AbortSignal} signal */
async function runStep({ name, command: [script = "", ...args] }, signal) {
  const startedAtMs = performance.now();
  /** @type {Buffer[]} */
  const shown = [];
  const { code } = await runCommand(process.execPath, [`${root}/node_modules/${script}`, ...args], {
    cwd: root,
    signal,
    output: (chunk) => void shown.push(chunk),
  });
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
  console.log(`${code === 0 ? "✓" : "✗"} ${name} (${seconds} s)`);
  if (code !== 0) console.log(Buffer.concat(shown).toString("utf8"));
  return one(name, code === 0 ? null : `ended with code ${code}; what it said stands above`);
}

await main(() =>
  untilInterrupted(async (signal) => {
    const unknown = process.argv.slice(2).find((arg) => arg !== "--static");
    if (unknown !== undefined) throw new UsageError(`unknown argument ${unknown}\n${usage}`);
    const isStatic = process.argv.includes("--static");
    await ensureSetup({ signal, scope: isStatic ? "tools" : "everything" });
    const chosen = isStatic ? steps.filter((step) => !step.alsoInTests) : steps;
    const tallies = [];
    for (const step of chosen) tallies.push(await runStep(step, signal));
    return conclude(sumOf(tallies));
  }),
);
