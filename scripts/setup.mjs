#!/usr/bin/env node
/** `npm run setup`: everything that a fresh checkout needs, and nothing that it has. */
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main, UsageError } from "./lib/main.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";

const usage = "usage: npm run setup [-- --force]     --force: do every step again";

await main(async () => {
  const args = process.argv.slice(2);
  const unknown = args.find((arg) => arg !== "--force");
  if (unknown !== undefined) throw new UsageError(`unknown argument ${unknown}\n${usage}`);
  const startedAtMs = performance.now();
  const { stepsDone } = await untilInterrupted((signal) => ensureSetup({ signal, force: args.includes("--force") }));
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
  console.error(stepsDone === 0 ? `set-up: nothing to do (${seconds} s)` : `set-up: ready (${seconds} s)`);
  return 0;
});
