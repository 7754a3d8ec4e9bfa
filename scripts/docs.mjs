#!/usr/bin/env node
/** `npm run docs`: writes the generated pages of `docs/reference/` from what the packages export. */
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main } from "./lib/main.mjs";
import { root } from "./lib/paths.mjs";
import { runCommand } from "./lib/run-command.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";

/** The pages are compared with what they should say by a test, which writes them when it is asked to update. */
const writePages = [
  "node_modules/vitest/vitest.mjs",
  "run",
  "--project",
  "repo",
  "test/repo/docs.test.ts",
  "-t",
  "the reference",
  "--update",
];

await main(() =>
  untilInterrupted(async (signal) => {
    await ensureSetup({ signal, scope: "tools" });
    const { code } = await runCommand(process.execPath, writePages, { cwd: root, signal, output: "inherit" });
    return code;
  }),
);
