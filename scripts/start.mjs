#!/usr/bin/env node
/** `npm start`: sets up what is missing, then runs a job in this terminal. `npm start -- my.toml --flag` runs another one. */
import { join } from "node:path";
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main } from "./lib/main.mjs";
import { root } from "./lib/paths.mjs";
import { runForeground } from "./lib/run-foreground.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";
import { runArguments } from "./lib/start-arguments.mjs";

const command = join(root, "packages/cli/bin/muster.mjs");

await main(async () => {
  const { natsServer } = await untilInterrupted((signal) => ensureSetup({ signal }));
  const env = natsServer === null ? process.env : { ...process.env, MUSTER_NATS_SERVER: natsServer };
  const args = runArguments(process.argv.slice(2), process.env.INIT_CWD ?? process.cwd());
  return runForeground(process.execPath, [command, "run", ...args], { cwd: root, env });
});
