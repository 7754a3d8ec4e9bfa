/** The record of a run from what its folder has: for a report at any time, also of a run whose process is gone. */

import { readChanges } from "@muster/check";
import { describeRun } from "../job/run-state.ts";
import type { RunRecord } from "../report/index.ts";
import { readInjections } from "./injections.ts";
import { readOwnIncidents } from "./own-incidents.ts";
import { readEvents } from "./read-events.ts";
import { readSamples } from "./read-samples.ts";
import { createRecorder } from "./recorder.ts";
import { readStored } from "./run-directory.ts";

/** Samples of the first step, and the newest ones. */
const firstMax = 2;
const newestMax = 24;

/** Reads the record. @throws MUSTER_ERR_RUN_FILE */
export function readRecord(directory: string, job: string): RunRecord {
  const recorder = createRecorder();
  let isFirst = true;
  for (const { event, atMs } of readEvents(directory)) {
    if (isFirst) recorder.beginAt(atMs);
    isFirst = false;
    recorder.take(event);
  }
  const stored = readStored(directory);
  const { state, reason } = describeRun(directory, job);
  const all = readSamples(directory);
  const samples = all.length <= newestMax ? all : [...all.slice(0, firstMax), ...all.slice(-newestMax)];
  const record = recorder.record({
    job,
    seed: stored?.config.seed ?? 0,
    configText: stored?.configText ?? "",
    status: { state, reason: reason ?? "", steps: stored?.config.steps ?? null, written_at: new Date().toISOString() },
    samples,
    injections: readInjections(directory),
    changes: readChanges(directory),
  });
  const incidents = [...record.summary.incidents, ...readOwnIncidents(directory)].sort((a, b) => a.at_ms - b.at_ms);
  return { ...record, summary: { ...record.summary, incidents } };
}
