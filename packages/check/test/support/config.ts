/** The configuration of a job whose file says nothing, as `muster run` reads it. */
import { embeddedEngines as engines } from "@muster/engine/embedded";
import type { JobConfig } from "@muster/protocol";
import { loadJob } from "@muster/runtime/config";

const model = { vocab: 13, maxContext: 128 };

/** Makes it. */
export function shippedConfig(): JobConfig {
  const set = ["job.name=checked", "task.name=checked"];
  return loadJob({ env: {}, folder: "/", set, describeTask: () => model, engines }).config;
}
