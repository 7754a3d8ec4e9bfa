#!/usr/bin/env node
/**
 * `npm run test:soak`: sets up what is missing, then a long run with faults of all kinds and the quiet run to compare it with; ends with
 * `N passed, N failed`. `npm run test:soak -- --minutes 60 --seed 7`: any option of `muster chaos`; 10 minutes unless told otherwise.
 */
import { join } from "node:path";
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main } from "./lib/main.mjs";
import { root } from "./lib/paths.mjs";
import { runForeground } from "./lib/run-foreground.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";

const command = join(root, "packages/cli/bin/muster.mjs");

await main(async () => {
  const { natsServer } = await untilInterrupted((signal) => ensureSetup({ signal }));
  const env = natsServer === null ? process.env : { ...process.env, MUSTER_NATS_SERVER: natsServer };
  const given = process.argv.slice(2);
  const minutes = given.includes("--minutes") ? [] : ["--minutes", "10"];
  const code = await runForeground(process.execPath, [command, "chaos", ...minutes, ...given, "--json"], {
    cwd: root,
    env,
  });
  console.log(code === 0 ? "1 passed, 0 failed" : "0 passed, 1 failed");
  return code;
});
