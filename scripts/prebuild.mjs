#!/usr/bin/env node
/** `npm run prebuild:native`: the native addon of this checkout as an archive, for machines of the same kind that should not compile it. */
import { join, resolve } from "node:path";
import { untilInterrupted } from "./lib/interrupt.mjs";
import { main, UsageError } from "./lib/main.mjs";
import { musterDirectory, root, shortPath } from "./lib/paths.mjs";
import { ensureSetup } from "./lib/setup/ensure-setup.mjs";
import { addonName, packPrebuilt, prebuiltVariable } from "./lib/setup/prebuilt.mjs";

const usage = "usage: npm run prebuild:native [-- <folder>]     default folder: .muster/prebuilt";

await main(async () => {
  const [given, ...more] = process.argv.slice(2);
  if (given?.startsWith("-") || more.length > 0) throw new UsageError(usage);
  const folder = given === undefined ? join(musterDirectory, "prebuilt") : resolve(process.env.INIT_CWD ?? ".", given);
  await untilInterrupted((signal) => ensureSetup({ signal }));
  const archive = packPrebuilt(join(root, "native/build/Release", addonName), folder);
  console.log(`${shortPath(archive)}; elsewhere: ${prebuiltVariable}=<folder, archive or its address> npm run setup`);
  return 0;
});
