/** The first question of whoever opens the page: does it move, and if not, who holds it up? Pure. */
import type { SeenStatus } from "@muster/client";
import type { JobFold } from "./fold.ts";
import { isWell, rowsOf } from "./rows.ts";

/** The answer. */
export interface Standing {
  readonly state: "moving" | "slow" | "waiting" | "away" | "ended";
  readonly sentence: string;
  /** Who or what holds it up, most likely first. */
  readonly holders: readonly string[];
}

/** A status older than this is not written any more: the controller does so once a second. */
const awayMs = 5_000;
/** Times the usual length of a step until the job counts as slow. */
const patience = 3;
const patienceMinMs = 10_000;
const holdersMax = 6;
const stepsLooked = 20;

/** Answers it for this moment. */
export function standingOf(status: SeenStatus | null, known: JobFold, nowMs: number): Standing {
  if (known.ended) return over(`The job is ${known.ended.outcome}`, known.ended.reason);
  if (status === null)
    return {
      state: "waiting",
      sentence: "No controller has shown this job yet: it starts, or replays its journal.",
      holders: [],
    };
  if (status.phase === "stopped") return over("The job has stopped", "");
  if (status.ageMs > awayMs) {
    const sentence = `The controller has said nothing for ${seconds(status.ageMs)}. A standby takes over by itself; replicas finish what they have.`;
    return {
      state: "away",
      sentence,
      holders: [`controller on ${status.controller.host} (pid ${status.controller.pid})`],
    };
  }
  const last = known.steps.at(-1);
  const holders = holdersOf(status, known);
  if (!last) {
    const sentence = `No step is committed yet: the job is ${status.phase}.`;
    return { state: "waiting", sentence, holders };
  }
  const sinceMs = Math.max(0, nowMs - last.atMs);
  const usualMs = usualOf(known);
  const sentence = `Step ${last.step} was committed ${seconds(sinceMs)} ago; a step usually takes ${seconds(usualMs)}.`;
  if (sinceMs <= Math.max(patienceMinMs, patience * usualMs)) return { state: "moving", sentence, holders: [] };
  return { state: "slow", sentence: `${sentence} The job is ${status.phase}.`, holders };
}

function over(what: string, reason: string): Standing {
  return { state: "ended", sentence: reason === "" ? `${what}.` : `${what}: ${reason}`, holders: [] };
}

function holdersOf(status: SeenStatus, known: JobFold): readonly string[] {
  const rows = rowsOf(status, known.why);
  const ill = rows
    .filter((row) => !isWell(row))
    .map(({ id, health, why }) => `${id} is ${health}${why ? `: ${why}` : ""}`);
  const owing = rows
    .filter((row) => isWell(row) && row.order !== null)
    .map(({ id, order }) => `${id} has not answered ${order}`);
  const alarm = known.news.findLast(({ event }) => event === "alarm.raised");
  return [...status.fleet.missing, ...ill, ...owing, ...(alarm ? [alarm.line] : [])].slice(0, holdersMax);
}

/** Median time between the last steps, ms. */
function usualOf({ steps }: JobFold): number {
  const lately = steps.slice(-stepsLooked);
  const gaps = lately.slice(1).map((point, i) => point.atMs - (lately[i]?.atMs ?? point.atMs));
  const sorted = gaps.filter((gap) => gap > 0).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? lately.at(-1)?.stepMs ?? 0;
}

/** A duration in a few characters. */
export function seconds(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
