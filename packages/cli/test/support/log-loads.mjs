// Writes the URL of every module that is loaded to the file that LOADS_TO names: `node --import ./log-loads.mjs …`.
import { appendFileSync } from "node:fs";
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";

if (isMainThread) register(import.meta.url);

/** The hook; it runs in a thread of its own. */
export async function load(url, context, nextLoad) {
  appendFileSync(process.env.LOADS_TO ?? "/dev/null", `${url}\n`);
  return await nextLoad(url, context);
}
