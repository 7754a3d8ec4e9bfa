/** Held-out prompts that were answered. */
import type { WorkItem } from "@muster/protocol";
import { valuesOf } from "../../table/table.ts";
import type { Change, ReportOf } from "../events.ts";
import { moved } from "../progress.ts";
import { type ControllerState, withStale } from "../state.ts";
import { isEarlier } from "./lease-table.ts";
import { finishItems } from "./leases.ts";

/** A chunk of held-out prompts was evaluated. Pure. */
export function applyEvaluated(state: ControllerState, event: ReportOf<"evals.completed">): Change<ControllerState> {
  const { leaseId, version, chunk, prompts, correct } = event.body;
  const holder = state.leases[leaseId]?.holder;
  const known = chunkOf(state, leaseId, chunk);
  if ((holder !== undefined && holder !== event.from) || known?.count !== prompts || correct > prompts)
    return { state: withStale(state), effects: [] };
  const next = finishItems(state, leaseId, (item) => item.purpose === "eval" && item.chunk === chunk);
  const run = next.evaluation;
  if (!run || run.version !== version || run.settled.includes(chunk) || isEarlier(run, leaseId))
    return { state: next, effects: [] };
  const evaluation = {
    ...run,
    queue: run.queue.filter((item) => item.chunk !== chunk),
    settled: [...run.settled, chunk],
    prompts: run.prompts + prompts,
    correct: run.correct + correct,
  };
  return { state: moved({ ...next, evaluation }), effects: [] };
}

/** A chunk of held-out prompts that is on this lease, waits, or is on another one. */
function chunkOf({ evaluation, leases }: ControllerState, leaseId: string, chunk: number) {
  const isIt = (item: WorkItem): boolean => item.purpose === "eval" && item.chunk === chunk;
  const own = leases[leaseId]?.items.find(isIt) ?? evaluation?.queue.find(isIt);
  const found = own ?? valuesOf(leases).flatMap(({ items }) => items.filter(isIt))[0];
  return found as Extract<WorkItem, { purpose: "eval" }> | undefined;
}
