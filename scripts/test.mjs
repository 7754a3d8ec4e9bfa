#!/usr/bin/env node
/**
 * `npm test`: sets up what is missing, then runs every test of the project; it ends with a line for each that failed, and
 * last, `N passed, N failed`.
 * `npm test -- <filter>` runs the matching vitest files only (other vitest flags such as `-t title` work too).
 */
import { hasNativeTests, runNativeTests } from "./lib/ctest.mjs";
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main } from "./lib/main.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";
import { conclude, reasonLine, sumOf } from "./lib/tally.mjs";
import { filesThatWait, waitingLine } from "./lib/turns.mjs";
import { clearReports, runVitest, testFilesIn } from "./lib/vitest.mjs";

/** Vitest projects and where their files are, from the quickest and most basic to the slowest. */
const projects = [
  { name: "repo", folder: "test/repo" },
  { name: "unit", folder: "packages" },
  { name: "integration", folder: "test/integration" },
  { name: "e2e", folder: "test/e2e" },
  { name: "chaos", folder: "test/chaos" },
];

/** @param {{ signal: AbortSignal, env: NodeJS.ProcessEnv }} options */
async function runEverything(options) {
  const parts = [];
  if (hasNativeTests()) {
    heading("native (ctest)");
    parts.push(await runNativeTests(options));
  }
  for (const { name, folder } of projects) {
    heading(name);
    const files = testFilesIn(folder);
    if (files.length === 0) {
      console.log(`${folder} holds no tests`);
      continue;
    }
    const waiting = name === "e2e" ? filesThatWait(files, process.env.MUSTER_CI_TURN) : [];
    const left = waiting.flatMap((file) => ["--exclude", file]);
    const tally = await runVitest(name, ["--project", name, ...left], options);
    // Files without a single result mean that the project ran nothing: never a success.
    parts.push(tally.passed + tally.failed === 0 ? { ...tally, ...nothingRan(name) } : tally);
    if (waiting.length > 0) parts.push(skippedOnly(waitingLine(waiting, files.length)));
  }
  parts.push(skippedOnly("test/learning: takes a quarter of an hour; by hand with npm run test:learning"));
  return sumOf(parts);
}

/** @param {string} line */
function skippedOnly(line) {
  return { passed: 0, failed: 0, failures: [], skipped: [line] };
}

/** @param {string} name */
function nothingRan(name) {
  return { failed: 1, failures: [reasonLine(name, "no test of it ran")] };
}

/** @param {string} title */
function heading(title) {
  console.log(`\n── ${title} ──`);
}

await main(() =>
  untilInterrupted(async (signal) => {
    const { natsServer } = await ensureSetup({ signal });
    const env = natsServer === null ? process.env : { ...process.env, MUSTER_NATS_SERVER: natsServer };
    const filters = process.argv.slice(2);
    clearReports();
    const tally =
      filters.length === 0
        ? await runEverything({ signal, env })
        : await runVitest("filtered", filters, { signal, env, isPart: true });
    return conclude(tally);
  }),
);
