/** What a controller needs that a test runs in its own process, on a real broker. */
import type { Environment } from "@muster/actors";
import { noMetrics, randomOf, silentLogger } from "@muster/base";
import { embeddedEngines as engines } from "@muster/engine/embedded";
import { systemClock } from "@muster/runtime";
import { loadJob } from "@muster/runtime/config";
import type { TestServer } from "@muster/testkit";

const jobFile = new URL("../../../jobs/dates.toml", import.meta.url).pathname;
const describeTask = () => ({ vocab: 64, maxContext: 64 });

/** The configuration of the shipped job, on the broker's job `test`. */
export const config = { ...loadJob({ file: jobFile, env: {}, set: [], describeTask, engines }).config, job: "test" };

/** The environment of a controller. */
export function environmentOf(server: TestServer, newIncarnation: () => string): Environment {
  return {
    host: "test-host",
    pid: 1,
    node: null,
    clock: systemClock(),
    wallMs: Date.now,
    random: randomOf(1),
    logger: silentLogger,
    metrics: noMetrics,
    connect: ({ role, id, incarnation }) => server.connect(`${role}.${id}.${incarnation}`),
    startBeats: () => {
      throw new Error("a controller has no heartbeats");
    },
    newIncarnation,
  };
}
