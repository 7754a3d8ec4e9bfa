/**
 * How ranks hear of the end of a barrier: it is said once as a fact, and as an answer to whoever asks again. One answer serves all who asked before it,
 * and answers wait for no fact: facts leave one after the other, and ranks that ask the more the longer they wait would hold each other up for good.
 */
import type { Body } from "@muster/protocol";
import { arrivedOf, type BarrierEnd } from "../../phases/barrier.ts";
import { announce, type ControllerEffect } from "../events.ts";
import type { KeptBarrier } from "./barriers-state.ts";

/** Time between two times that the end of one barrier is said: much less than that after which a rank asks again. */
const answerEveryMs = 2_000;

/** A barrier, and what is said of it now. */
interface Answer {
  readonly barrier: KeptBarrier;
  readonly effects: readonly ControllerEffect[];
}

/** What is said to a rank that is there: nothing before the end, and soon after it. Pure. */
export function answered(barrier: KeptBarrier, nowMs: number): Answer {
  return barrier.end ? answeredAll({ ...barrier, isAsked: true }, nowMs) : { barrier, effects: [] };
}

/** Says the end to all who have asked, unless it was said just now. Pure. */
export function answeredAll(barrier: KeptBarrier, nowMs: number): Answer {
  const { isAsked, saidAtMs, ...rest } = barrier;
  const isEarly = saidAtMs !== undefined && nowMs < saidAtMs + answerEveryMs;
  if (!isAsked || isEarly || !barrier.end) return { barrier, effects: [] };
  const body = ended(barrier, barrier.end);
  const effect: ControllerEffect =
    saidAtMs === undefined ? announce("barrier.ended", body) : { type: "answer", kind: "barrier.ended", body };
  return { barrier: { ...rest, saidAtMs: nowMs }, effects: [effect] };
}

/** The public end of a barrier. */
function ended(barrier: KeptBarrier, end: BarrierEnd): Body<"barrier.ended"> {
  const { epoch, iteration, phase, decision } = barrier;
  const { outcome, missing, reason, waitedMs, coverage, shares } = end;
  const said = { outcome, missing: [...missing], reason, waitedMs, coverage, shares: [...shares] };
  const arrived = [...arrivedOf(barrier)];
  return { epoch, iteration, phase, arrived, ...said, ...(decision === undefined ? {} : { decision }) };
}
