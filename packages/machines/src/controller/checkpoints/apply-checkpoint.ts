/** What checkpoint actors say of an order to save. */
import { formatSize } from "@muster/base";
import { type Body, decideFailure } from "@muster/protocol";
import { isSame, type VersionKey } from "../../version-key.ts";
import { announce, type Change, type ReportOf } from "../events.ts";
import { saveOf } from "../order.ts";
import { answered } from "../orders.ts";
import { type ControllerState, endingWith, type KeptCheckpoint, type Member, withMember } from "../state.ts";
import { noteBest } from "./best-checkpoint.ts";
import type { Checkpoints } from "./checkpoints-state.ts";
import { fallbackAfter, noteCopy } from "./fallback.ts";
import { copiesAfter, withCopy } from "./quorum.ts";
import { savedFlawOf } from "./saved-checkpoint.ts";
import { isSealing, withoutSet } from "./shards.ts";
import { splitHistory, watermarkAfter } from "./watermark.ts";

/** Seals that may fail in a row while all shards are there. */
const sealsMax = 3;

/** A checkpoint actor has made a checkpoint durable. Once enough hosts have it, it counts, and what it covers may go. Pure. */
export function applySaved(state: ControllerState, event: ReportOf<"checkpoint.saved">): Change<ControllerState> {
  const { step, version, lineage, path, manifestDigest } = event.body;
  const flaw = savedFlawOf(state, event.body);
  if (flaw !== null) {
    const cause = `what ${event.from} reports durable is refused: ${flaw}`;
    return applySaveFailed(state, { ...event, type: "checkpoint.failed", body: { step, version, lineage, cause } });
  }
  const next = withMember(state, event.from, saveAnswered(state.members[event.from], event.body));
  if (lineage !== state.weights?.lineage) return { state: next, effects: [] };
  const copy = { step, version, path, host: state.members[event.from]?.host ?? "", manifestDigest };
  if ((state.checkpoints.saved?.step ?? -1) >= step) return noteBest({ state: noteCopy(next, copy), effects: [] });
  const { counted, ...noted } = withCopy(next, copy);
  const [first, ...copies] = counted;
  return first ? applyCounted(noted.state, lineage, [first, ...copies]) : { state: noted.state, effects: [] };
}

/** A checkpoint counts, with these copies. Pure. */
function applyCounted(
  state: ControllerState,
  lineage: number,
  [kept, ...copies]: readonly [KeptCheckpoint, ...KeptCheckpoint[]],
): Change<ControllerState> {
  const { step, version, path, manifestDigest = "" } = kept;
  const { covered, history } = splitHistory(state, step);
  const { isShort: _, isFull: __, ...before } = copiesAfter(withoutOlderSet(state.checkpoints, step), step);
  const wanted = before.wantedStep;
  const checkpoints = {
    ...before,
    failures: 0,
    saved: kept,
    wantedStep: wanted !== null && wanted <= step ? null : wanted,
  };
  const purgedSeq = watermarkAfter(state, { covered, history });
  const next = { ...state, history, checkpoints, fallback: fallbackAfter(state, kept, covered), purgedSeq };
  return noteBest({
    state: copies.reduce(noteCopy, next),
    effects: [
      announce("checkpoint.kept", { step, lineage, version, path, manifestDigest }),
      ...(purgedSeq > state.purgedSeq ? [{ type: "groups.purge", beforeSeq: purgedSeq } as const] : []),
    ],
  });
}

/** A checkpoint failed: the newest version is wanted instead, after the pause of its rule, unless the rule ends the job. Pure. */
export function applySaveFailed(state: ControllerState, event: ReportOf<"checkpoint.failed">): Change<ControllerState> {
  const failures = state.checkpoints.failures + 1;
  const { action, afterMs } = decideFailure(state.plan.failure, "checkpoint_io", failures);
  const retryAtMs = state.nowMs + afterMs;
  const answer = saveAnswered(state.members[event.from], event.body);
  const next = withMember(withoutFailed(state, event), event.from, { ...answer, retryAtMs });
  const detail = `step ${event.body.step}: ${event.body.cause}`;
  const isLast = action === "abort" && !next.ending;
  const outlook = isLast ? "the job ends with this" : "training goes on";
  const full =
    event.body.full && `${fullText(event, event.body.full, next)}; ${outlook}, and the last good checkpoint stays`;
  // A disk that stays full says so once; each try fails.
  const isSaid = full !== undefined && state.checkpoints.isFull === true;
  const alarm = full === undefined ? { alarm: "checkpoint", detail } : { alarm: "checkpoint-disk", detail: full };
  const effects = isSaid ? [] : [announce("alarm.raised", alarm)];
  if (isLast) {
    const reason = `${failures} checkpoints in a row failed, the last one of ${detail}`;
    return { state: endingWith(next, "failed", reason), effects };
  }
  const checkpoints = {
    ...next.checkpoints,
    ...(full === undefined ? {} : { isFull: true as const }),
    failures,
    wantedStep: state.step.step - 1,
  };
  return { state: { ...next, checkpoints }, effects };
}

/**
 * A set whose shards are not where they were said to be is begun anew. While they are there another actor seals it: none of them is written again because
 * one disk has no room or failed for a moment.
 */
function withoutFailed(state: ControllerState, { from, body }: ReportOf<"checkpoint.failed">): ControllerState {
  const { set = null, failures } = state.checkpoints;
  if (!isSame(set, body) || !isSealing(state.members[from], body)) return state;
  const isKept = !body.shardsMissing && (body.full !== undefined || failures + 1 < sealsMax);
  return isKept ? state : { ...state, checkpoints: withoutSet(state.checkpoints) };
}

function withoutOlderSet(checkpoints: Checkpoints, step: number): Checkpoints {
  return checkpoints.set && checkpoints.set.step <= step ? withoutSet(checkpoints) : checkpoints;
}

/** A disk without room, in words: which one, how much is missing, and the way out. */
function fullText(
  { from, body: { step } }: ReportOf<"checkpoint.failed">,
  { folder, freeBytes, neededBytes }: NonNullable<Body<"checkpoint.failed">["full"]>,
  state: ControllerState,
): string {
  const host = state.members[from]?.host ?? from;
  const waits = state.checkpoints.copies ? " (copies wait there for checkpoint.quorum)" : "";
  return `the checkpoint of step ${step} does not fit on ${host}: ${folder}${waits} has ${formatSize(freeBytes)} free and ${formatSize(neededBytes)} are needed; free space there, or lower checkpoint.keep`;
}

/** What a member's order becomes by a report about a checkpoint: answered when it is about this one. */
function saveAnswered(member: Member | undefined, version: VersionKey): Partial<Member> {
  return saveOf(member?.order, version) ? answered : {};
}
