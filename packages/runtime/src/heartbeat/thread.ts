/**
 * Entry of the heartbeat thread: beats until told to stop, over a connection of its own. It knows the main thread only through the
 * shared numbers, so it beats on while the main loop computes, and says how long that loop has been silent.
 */
import { parentPort, workerData } from "node:worker_threads";
import { invariant, MusterError, messageOf, mixSeed, randomOf } from "@muster/base";
import { createEnveloper, decodeMessage, encodeMessage, type Kind, type Message, subjectsOf } from "@muster/protocol";
import { connectNats, type Transport } from "@muster/transport";
import { jitteredMs } from "../backoff.ts";
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
    say(transport, beat());
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
      // Without the right to listen a probe stays without this answer; the beats go on.
      await listen(transport).catch(tellTrouble);
      return transport;
    } catch (error) {
      tellTrouble(error);
      await pause(jitteredMs(job.intervalMs, random));
    }
  }
  return null;
}

function say<K extends Kind>(transport: Transport, message: Message<K>): void {
  transport.send(subject, encodeMessage(message));
}

function beat() {
  enveloper.setTerm(state.get("term"));
  enveloper.setEpoch(state.get("epoch"));
  const version = state.get("version");
  const engine = { liveness: state.get("liveness"), generation: state.get("generation") };
  return enveloper.stamp("heartbeat.beat", {
    version: version < 0 ? null : version,
    phase: job.phases[state.get("phase")] ?? "",
    progress: state.get("progress"),
    loopLagMs: state.loopLagMs(job.tickMs),
    rssBytes: process.memoryUsage.rss(),
    ...(engine.liveness < 0 ? {} : { engine }),
  });
}

/** Answers the controller's questions: what only this thread can say is that the process lives. */
async function listen(transport: Transport): Promise<void> {
  const { job: name, id, incarnation } = job.identity;
  const answer = (data: Uint8Array): void => {
    const question = decodeMessage(data);
    if (question.kind !== "replica.probe" || question.to !== incarnation) return;
    say(transport, enveloper.stamp("probe.answered", { nonce: question.body.nonce, by: "thread" }));
  };
  await transport.subscribe(subjectsOf(name).probe(id), (_, data) => attempt(() => answer(data)));
}

/** What goes wrong here must not stop the beats; the main thread hears of it. */
function attempt(run: () => void): void {
  try {
    run();
  } catch (error) {
    tellTrouble(error);
  }
}

function tellTrouble(error: unknown): void {
  const code = error instanceof MusterError ? error.code : "unknown";
  tell({ type: "trouble", code, message: messageOf(error) });
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
