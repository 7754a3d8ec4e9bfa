#!/usr/bin/env node
/** `npm run docs`: writes the generated pages of `docs/reference/` from what the packages export and the commands say. */
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main } from "./lib/main.mjs";
import { root } from "./lib/paths.mjs";
import { runCommand } from "./lib/run-command.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";

/** The pages are compared with what they should say by tests, which write them when they are asked to update. */
const pages = [
  ["--project", "repo", "test/repo/docs.test.ts", "-t", "the reference"],
  ["--project", "unit", "packages/cli/test/reference.test.ts"],
];

await main(() =>
  untilInterrupted(async (signal) => {
    await ensureSetup({ signal, scope: "tools" });
    for (const chosen of pages) {
      const command = ["node_modules/vitest/vitest.mjs", "run", ...chosen, "--update"];
      const { code } = await runCommand(process.execPath, command, { cwd: root, signal, output: "inherit" });
      if (code !== 0) return code;
    }
    return 0;
  }),
);
