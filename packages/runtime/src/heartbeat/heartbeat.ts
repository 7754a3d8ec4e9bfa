/**
 * Heartbeats of one actor from a thread of their own (reliability 4.1): the beat says the process lives, the numbers in it say
 * whether its work moves. On the main loop, every long computation would look like a death.
 */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { type Logger, messageOf } from "@muster/base";
import type { Identity } from "@muster/protocol";
import { errors } from "../errors.ts";
import { type HeartbeatConnection, type HeartbeatJob, type HeartbeatNotice, stopWord } from "./job.ts";
import { noVersion, openSharedState } from "./shared-state.ts";

/** What heartbeats are started with. */
export interface HeartbeatOptions {
  /** Where and as whom the thread connects; it opens a connection of its own. */
  readonly connection: HeartbeatConnection;
  readonly identity: Identity;
  /** Time between beats, varied by ±10 %. */
  readonly intervalMs: number;
  /** Every phase that {@link Heartbeat.setPhase} may name, 1 to 48 characters each; the first is the phase at start. */
  readonly phases: readonly string[];
  readonly logger: Logger;
  /** Called when the thread ended by itself: the actor will be taken for dead, so its owner should end it. */
  readonly onFailed?: (error: unknown) => void;
}

/** Running heartbeats. Setters take effect with the next beat. */
export interface Heartbeat {
  /** Counts finished work, so that a beat without progress shows a hang. Default 1. */
  progress(amount?: number): void;
  /** Version held; `null` for none. */
  setVersion(version: number | null): void;
  /** @throws MUSTER_ERR_HEARTBEAT_PHASE for a phase that was not declared. */
  setPhase(phase: string): void;
  setTerm(term: number): void;
  setEpoch(epoch: number): void;
  /** Failed health checks of the engine in a row. */
  setEngine(failures: { readonly liveness: number; readonly generation: number }): void;
  /** Ends the thread, within half a second. Harmless when called twice. */
  stop(): Promise<void>;
}

const tickMs = 100;
const stopGraceMs = 300;

/**
 * Starts beating: the first beat goes out as soon as the thread is connected. It reconnects by itself and never keeps the process alive.
 *
 * @throws MUSTER_ERR_HEARTBEAT_THREAD when the compiled thread is missing.
 */
export function startHeartbeat(options: HeartbeatOptions): Heartbeat {
  const { connection, identity, intervalMs, phases } = options;
  const state = openSharedState();
  const thread = startThread({ connection, identity, intervalMs, tickMs, phases, memory: state.memory }, options);
  const ticker = setInterval(() => state.tick(), tickMs).unref();
  return {
    progress: (amount = 1) => state.add("progress", amount),
    setVersion: (version) => state.set("version", version ?? noVersion),
    setPhase(phase) {
      const code = phases.indexOf(phase);
      if (code < 0) throw errors.HeartbeatPhase({ phase, known: phases.join(", ") });
      state.set("phase", code);
    },
    setTerm: (term) => state.set("term", term),
    setEpoch: (epoch) => state.set("epoch", epoch),
    setEngine({ liveness, generation }) {
      state.set("liveness", liveness);
      state.set("generation", generation);
    },
    async stop() {
      clearInterval(ticker);
      await thread.stop();
    },
  };
}

function startThread(job: HeartbeatJob, { logger, onFailed }: HeartbeatOptions): { stop(): Promise<void> } {
  // No inherited flags: the thread is plain JavaScript even when the process runs from sources.
  const worker = new Worker(threadFile(), { workerData: job, execArgv: [] });
  let stopping = false;
  let cause: unknown;
  worker.on("message", (notice: HeartbeatNotice) => {
    if (notice.type === "connected") logger.debug({}, "heartbeats connected");
    else logger.warn({ code: notice.code, reason: notice.message }, "heartbeats cannot connect yet");
  });
  worker.once("error", (error) => {
    cause = error;
  });
  const ended = new Promise<void>((resolve) => {
    worker.once("exit", (code) => {
      resolve();
      if (!stopping) onFailed?.(errors.HeartbeatEnded({ code, reason: messageOf(cause ?? "no cause") }, cause));
    });
  });
  worker.unref();
  return {
    async stop() {
      stopping = true;
      worker.postMessage(stopWord);
      const killer = setTimeout(() => void worker.terminate(), stopGraceMs);
      await ended;
      clearTimeout(killer);
    },
  };
}

/** The compiled thread: beside this file when compiled, in `dist` when this file runs from source. */
function threadFile(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = new URL(fromSource ? "../../dist/heartbeat/thread.js" : "./thread.js", import.meta.url);
  if (!existsSync(file)) throw errors.HeartbeatThread({ path: fileURLToPath(file) });
  return file;
}
