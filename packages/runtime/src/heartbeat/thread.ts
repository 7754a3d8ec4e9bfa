/**
 * Entry of the heartbeat thread: beats until told to stop, over a connection of its own. It knows the main thread only through the
 * shared numbers, so it beats on while the main loop computes, and says how long that loop has been silent.
 */
import { parentPort, workerData } from "node:worker_threads";
import { invariant, MusterError, messageOf, mixSeed, randomOf } from "@muster/base";
import { encodeMessage, subjectsOf } from "@muster/protocol";
import { connectNats, type Transport } from "@muster/transport";
import { jitteredMs } from "../backoff.ts";
import { createEnveloper } from "../wire/enveloper.ts";
import { type HeartbeatJob, type HeartbeatNotice, stopWord } from "./job.ts";
import { openSharedState } from "./shared-state.ts";

invariant(parentPort !== null, "the heartbeat thread was started as a program");
const parent = parentPort;
const job = workerData as HeartbeatJob;
const state = openSharedState(job.memory);
const subject = subjectsOf(job.identity.job).heartbeat(job.identity.role, job.identity.id);
const enveloper = createEnveloper({ ...job.identity, wallMs: Date.now });
const random = randomOf(mixSeed(process.pid, Number(process.hrtime.bigint() & 0x7fffffffn)));
const stopped = new AbortController();

parent.on("message", (word) => {
  if (word === stopWord) stopped.abort();
});
await beatUntilStopped();
parent.close();

async function beatUntilStopped(): Promise<void> {
  const transport = await connect();
  while (transport && !stopped.signal.aborted) {
    // A beat that is lost while disconnected is not made up for: the next one says more.
    transport.send(subject, encodeMessage(beat()));
    await pause(jitteredMs(job.intervalMs, random));
  }
  await transport?.close();
}

async function connect(): Promise<Transport | null> {
  while (!stopped.signal.aborted) {
    try {
      const transport = await connectNats({
        ...job.connection,
        job: job.identity.job,
        connectTimeoutMs: job.intervalMs,
      });
      tell({ type: "connected" });
      return transport;
    } catch (error) {
      const code = error instanceof MusterError ? error.code : "unknown";
      tell({ type: "trouble", code, message: messageOf(error) });
      await pause(jitteredMs(job.intervalMs, random));
    }
  }
  return null;
}

function beat() {
  enveloper.setTerm(state.get("term"));
  enveloper.setEpoch(state.get("epoch"));
  const version = state.get("version");
  return enveloper.stamp("heartbeat.beat", {
    version: version < 0 ? null : version,
    phase: job.phases[state.get("phase")] ?? "",
    progress: state.get("progress"),
    loopLagMs: state.loopLagMs(job.tickMs),
    rssBytes: process.memoryUsage.rss(),
  });
}

function tell(notice: HeartbeatNotice): void {
  parent.postMessage(notice);
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      stopped.signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, delayMs);
    stopped.signal.addEventListener("abort", end);
    if (stopped.signal.aborted) end();
  });
}
