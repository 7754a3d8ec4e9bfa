/** Reports about weights, meshes, groups, votes and checkpoints: facts into the tables, nothing decided. */
import { decideFailure, type FailureKind, type GroupReceipt, type WorkItem } from "@muster/protocol";
import type { VersionKey } from "../version-key.ts";
import { putOut } from "./apply-membership.ts";
import { noteDamage } from "./damaged-checkpoint.ts";
import { announce, type Change, type ControllerEffect, type ReportOf } from "./events.ts";
import { fallbackAfter, noteCopy } from "./fallback.ts";
import { isKnownCause, noteReceipts } from "./given-up.ts";
import { finishItems, keyOf, releasedFacts, requeue, withGroups, withPartials } from "./leases.ts";
import { noteGroups } from "./paces.ts";
import { applyKept, applyNotKept, noteMiss } from "./plan-memory.ts";
import { savedFlawOf } from "./saved-checkpoint.ts";
import { noteShortage } from "./shortages.ts";
import { noteUnasked, refuseReceipts, wasLeased } from "./sound-receipts.ts";
import {
  arrived,
  type ControllerState,
  type KeptReceipt,
  type Member,
  meshMembersOf,
  moved,
  withMember,
} from "./state.ts";

/** Longest time that a report can be about: a day. */
const durationMaxMs = 86_400_000;

/** A member that has answered its order. */
const answered = { order: null, unanswered: 0 } as const;

/**
 * A replica acknowledged the digests of a version. The first one that was asked for it makes the initial weights. What was overtaken by
 * newer words of the replica, or by a new lineage, is dropped and counted. Pure.
 */
export function applyHeld(state: ControllerState, event: ReportOf<"weights.held">): Change<ControllerState> {
  const { lineage, version, sections } = event.body;
  const member = state.members[event.from];
  if (!member) return { state, effects: [] };
  if (member.role === "checkpoint") return applyKept(state, event);
  const isOvertaken =
    lineage !== state.restore.lineage || (member.held?.lineage === lineage && member.held.version > version);
  if (isOvertaken) {
    const { dropped } = state;
    return { state: { ...state, dropped: { ...dropped, stale: dropped.stale + 1 } }, effects: [] };
  }
  const isInitial = member.order?.kind === "weights.initialize" && isAnswered(member, event.body);
  const weights = isInitial ? { lineage, version, sections } : state.weights;
  const isAsked = sections.every((section) => {
    const asked = weights?.sections.find(({ name }) => name === section.name);
    return asked === undefined || weights?.version !== version || asked.digest === section.digest;
  });
  if (!isAsked) {
    const detail = `${member.id} reports version ${version} with a digest that is not the committed one`;
    return {
      state: withMember(state, member.id, { held: null, order: null }),
      effects: [announce("alarm.raised", { alarm: "digest", detail })],
    };
  }
  return {
    state: withMember(arrived({ ...state, weights }), member.id, {
      held: { lineage, version },
      addresses: event.body.addresses,
      ...(isAnswered(member, event.body) ? answered : {}),
    }),
    effects: [],
  };
}

/** A replica could not get a version: it is asked again after a pause, or, when its checkpoint is damaged, for another one. Pure. */
export function applyFailed(before: ControllerState, event: ReportOf<"weights.failed">): Change<ControllerState> {
  const { role } = before.members[event.from] ?? {};
  if (role === "checkpoint") return applyNotKept(before, event);
  const state = role === "policy" ? noteMiss(before, event.body) : before;
  const detail = `${event.from} could not get version ${event.body.version}: ${event.body.cause}`;
  const effects = [announce("alarm.raised", { alarm: "weights", detail })];
  const member = state.members[event.from];
  if (!member || !isAnswered(member, event.body)) return { state, effects };
  const retryAtMs = state.nowMs + state.plan.timing.commandMs / 5;
  const next = withMember(state, event.from, { ...answered, retryAtMs });
  const { damage } = event.body;
  return (damage && noteDamage(next, member, damage)) ?? { state: next, effects };
}

/** True when a report about a version answers the order that a member has. */
function isAnswered({ order }: Member, { lineage, version }: VersionKey): boolean {
  if (order === null || order.kind === "replica.stop" || order.kind === "checkpoint.save") return false;
  return order.version === version && order.lineage === lineage;
}

/** What a member's order becomes by a report about a checkpoint: answered when it is about this one. */
function saveAnswered(member: Member | undefined, { lineage, version }: VersionKey): Partial<Member> {
  const { order } = member ?? {};
  return order?.kind === "checkpoint.save" && order.lineage === lineage && order.version === version ? answered : {};
}

/** A member joined the communicator of the epoch. Pure. */
export function applyBuilt(state: ControllerState, event: ReportOf<"mesh.built">): Change<ControllerState> {
  const { mesh } = state;
  if (mesh.state !== "building" || event.body.epoch !== mesh.epoch || mesh.built.includes(event.from))
    return { state, effects: [] };
  const built = [...mesh.built, event.from];
  if (built.length < mesh.members.length) return { state: { ...state, mesh: { ...mesh, built } }, effects: [] };
  return {
    state: { ...state, mesh: { ...mesh, built, state: "ready" } },
    effects: [announce("mesh.changed", { epoch: mesh.epoch, members: [...mesh.members] })],
  };
}

/** A member could not join: the epoch is of no use. Pure. */
export function applyMeshFailed(state: ControllerState, event: ReportOf<"mesh.failed">): Change<ControllerState> {
  if (event.body.epoch !== state.mesh.epoch) return { state, effects: [] };
  const detail = `epoch ${event.body.epoch}: ${event.from} could not join: ${event.body.cause}`;
  return {
    state: {
      ...state,
      mesh: { ...state.mesh, state: "broken", dueAtMs: state.nowMs + state.plan.timing.commandMs / 5 },
    },
    effects: [announce("alarm.raised", { alarm: "mesh", detail })],
  };
}

/**
 * Finished groups: the first result of a group wins; late and duplicate ones are dropped and counted. A result whose tokens may be purged
 * by now is of no use, so its group waits again. Pure.
 */
export function applyCompleted(state: ControllerState, event: ReportOf<"groups.completed">): Change<ControllerState> {
  const { sound: possible, ...checked } = refuseReceipts(state, event);
  const leased = { leaseId: event.body.leaseId, from: event.from };
  const unasked = possible.filter((receipt) => isOpen(state, receipt) && !wasLeased(state, leased, receipt));
  const noted = noteUnasked(checked.state, event.from, unasked);
  const refused = { state: noted.state, effects: [...checked.effects, ...noted.effects] };
  const sound = possible.filter((receipt) => !unasked.includes(receipt));
  if (sound.length === 0) return refused;
  const fresh = sound.filter((receipt) => isOpen(state, receipt));
  const durationMs = Math.min(event.body.durationMs, durationMaxMs);
  const paced = noteGroups(refused.state, event.from, { groups: sound.length, durationMs });
  const settled = sound.reduce(
    (next, receipt) => settleReceipt(next, { ...receipt, by: event.from }),
    noteReceipts(paced, fresh, event.body.causes),
  );
  const keys = new Set(sound.map(({ step, index }) => `${step}.${index}`));
  const next = finishItems(
    settled,
    event.body.leaseId,
    (item) => item.purpose === "train" && keys.has(`${item.step}.${item.index}`),
  );
  const effects: ControllerEffect[] = event.body.causes.map((cause) => {
    const { stack: _, ...known } = cause;
    return announce("groups.aborted", { holder: event.from, ...(isKnownCause(state, cause) ? known : cause) });
  });
  return { state: next, effects: [...refused.effects, ...effects] };
}

function isOpen(state: ControllerState, { step, index }: GroupReceipt): boolean {
  const groups = state.groups[step];
  return groups !== undefined && !groups.receipts[index] && !groups.quarantined.includes(index);
}

function settleReceipt(state: ControllerState, receipt: KeptReceipt): ControllerState {
  const groups = state.groups[receipt.step];
  const { dropped } = state;
  if (!groups || !isOpen(state, receipt))
    return { ...state, dropped: { ...dropped, duplicate: dropped.duplicate + 1 } };
  const staleness = (state.weights?.version ?? 0) + receipt.step - state.step.step - receipt.version;
  if (staleness > state.plan.stalenessMax || receipt.streamSeq < state.purgedSeq) {
    const again = { purpose: "train", step: receipt.step, index: receipt.index, attempt: receipt.attempt } as const;
    const next = { ...state, dropped: { ...dropped, stale: dropped.stale + 1 } };
    return requeue(next, [again], { holder: "", reason: "stale", failure: null }).state;
  }
  const { sampled } = state;
  const counted = { groups: sampled.groups + 1, tokens: sampled.tokens + receipt.tokens };
  return withGroups({ ...moved(state), sampled: counted }, receipt.step, {
    ...groups,
    queue: groups.queue.filter(({ index }) => index !== receipt.index),
    receipts: { ...groups.receipts, [receipt.index]: receipt },
  });
}

/**
 * Work handed back: others may have it at once, the holder gets new work after a pause. When the holder's engine failed over it, that
 * counts against the work, and the rule of the failure may ask for a new life of the holder. Pure.
 */
export function applyReturned(state: ControllerState, event: ReportOf<"groups.returned">): Change<ControllerState> {
  const lease = state.leases[event.body.leaseId];
  if (lease?.holder !== event.from) return { state, effects: [] };
  const told = new Set(event.body.items.map(keyOf));
  const leased = lease.items.filter((item) => told.has(keyOf(item)));
  const next = finishItems(state, event.body.leaseId, (item) => leased.includes(item));
  const returned = withPartials(leased, event.body.items, state.purgedSeq);
  const { reason, failure = null, tokensWasted = 0 } = event.body;
  // Work that was not begun and has only another holder now is no news.
  const isBegun = returned.some((item, i) => item !== leased[i]);
  const isNews = failure !== null || isBegun || tokensWasted > 0;
  const why = { holder: isNews ? event.from : "", reason, failure };
  const queued = requeue(next, returned, why);
  const retryAtMs = state.nowMs + state.plan.timing.commandMs / 5;
  const paused = withMember(queued.state, event.from, { retryAtMs });
  const facts = releasedFacts(state, { why, items: returned, started: [], tokensWasted });
  const effects = [...(isNews && returned.length > 0 ? facts : []), ...queued.effects];
  const member = state.members[event.from];
  if (!failure || !member) return { state: paused, effects };
  const noted = failure === "oom" ? noteShortage(paused, member) : { state: paused, effects: [] };
  effects.push(...noted.effects);
  if (!isRestart(state, failure, returned)) return { state: noted.state, effects };
  const removed = putOut(noted.state, member, { evidence: `its engine failed: ${reason}`, by: "engine", silentMs: 0 });
  return { state: removed.state, effects: [...effects, ...removed.effects] };
}

/** What a holder has drawn so far is stored: whoever has the work next, should the holder die, goes on with that. Pure. */
export function applySavedGroups(state: ControllerState, event: ReportOf<"groups.saved">): Change<ControllerState> {
  const { leaseId, items } = event.body;
  const lease = state.leases[leaseId];
  if (lease?.holder !== event.from) return { state, effects: [] };
  const saved = { ...lease, items: withPartials(lease.items, items, state.purgedSeq) };
  return { state: { ...state, leases: { ...state.leases, [leaseId]: saved } }, effects: [] };
}

/** True when the rule of a failure asks for a new life of the replica, for one of these items at least. */
function isRestart({ plan }: ControllerState, failure: FailureKind, items: readonly WorkItem[]): boolean {
  const failures = items.map((item) => (item.purpose === "train" ? item.attempt : 0) + 1);
  return failures.some((count) => decideFailure(plan.failure, failure, count).action === "restart");
}

/** A chunk of held-out prompts was evaluated. Pure. */
export function applyEvaluated(state: ControllerState, event: ReportOf<"evals.completed">): Change<ControllerState> {
  const { leaseId, version, chunk, prompts, correct } = event.body;
  const holder = state.leases[leaseId]?.holder;
  const known = chunkOf(state, chunk);
  if ((holder !== undefined && holder !== event.from) || known?.count !== prompts || correct > prompts) {
    const { dropped } = state;
    return { state: { ...state, dropped: { ...dropped, stale: dropped.stale + 1 } }, effects: [] };
  }
  const next = finishItems(state, leaseId, (item) => item.purpose === "eval" && item.chunk === chunk);
  const run = next.evaluation;
  if (!run || run.version !== version || run.settled.includes(chunk)) return { state: next, effects: [] };
  const evaluation = {
    ...run,
    queue: run.queue.filter((item) => item.chunk !== chunk),
    settled: [...run.settled, chunk],
    prompts: run.prompts + prompts,
    correct: run.correct + correct,
  };
  return { state: moved({ ...next, evaluation }), effects: [] };
}

/** A chunk of held-out prompts that waits or is leased. */
function chunkOf({ evaluation, leases }: ControllerState, chunk: number) {
  const leased = Object.values(leases).flatMap(({ items }) => items);
  return [...(evaluation?.queue ?? []), ...leased].find((item) => item.purpose === "eval" && item.chunk === chunk) as
    | Extract<WorkItem, { purpose: "eval" }>
    | undefined;
}

/** A member's vote on the running attempt; votes on others change nothing. Pure. */
export function applyVoted(state: ControllerState, event: ReportOf<"step.voted">): Change<ControllerState> {
  const { step, attempt, epoch, vote, finite, sections, stats, cause, missing, unreadable } = event.body;
  const run = state.step;
  const isCurrent =
    run.state === "running" && run.step === step && run.attempt === attempt && epoch === state.mesh.epoch;
  const isRank = meshMembersOf(state).some(({ id }) => id === event.from);
  if (!isCurrent || !isRank || run.votes[event.from]) return { state, effects: [] };
  const votes = {
    ...run.votes,
    [event.from]: {
      ...{ vote, finite, sections, stats: stats ?? null, cause: cause ?? "", missing: missing ?? [] },
      ...(unreadable ? { unreadable } : {}),
    },
  };
  return { state: { ...state, step: { ...run, votes } }, effects: [] };
}

/** A checkpoint is durable: what it covers may go. Pure. */
export function applySaved(state: ControllerState, event: ReportOf<"checkpoint.saved">): Change<ControllerState> {
  const { step, version, lineage, path, manifestDigest } = event.body;
  const flaw = savedFlawOf(state, event.body);
  if (flaw !== null) {
    const cause = `what ${event.from} reports durable is refused: ${flaw}`;
    return applySaveFailed(state, { ...event, type: "checkpoint.failed", body: { step, version, lineage, cause } });
  }
  const next = withMember(state, event.from, saveAnswered(state.members[event.from], event.body));
  if (lineage !== state.weights?.lineage) return { state: next, effects: [] };
  const kept = { step, version, path, host: state.members[event.from]?.host ?? "", manifestDigest };
  if ((state.checkpoints.saved?.step ?? -1) >= step) return { state: noteCopy(next, kept), effects: [] };
  const covered = Object.entries(state.history).filter(([key]) => Number(key) <= step);
  const history = Object.fromEntries(Object.entries(state.history).filter(([key]) => Number(key) > step));
  const last = covered.flatMap(([, receipts]) => receipts).reduce((max, { streamSeq }) => Math.max(max, streamSeq), 0);
  const wanted = state.checkpoints.wantedStep;
  const checkpoints = {
    ...state.checkpoints,
    failures: 0,
    saved: kept,
    wantedStep: wanted !== null && wanted <= step ? null : wanted,
  };
  const beforeSeq = last > 0 ? Math.min(last + 1, lowestOpenSeq({ ...next, history })) : 0;
  const purgedSeq = Math.max(state.purgedSeq, beforeSeq);
  return {
    state: { ...next, history, checkpoints, fallback: fallbackAfter(state, kept, covered), purgedSeq },
    effects: [
      announce("checkpoint.kept", { step, lineage, version, path, manifestDigest }),
      ...(purgedSeq > state.purgedSeq ? [{ type: "groups.purge", beforeSeq } as const] : []),
    ],
  };
}

/** The lowest groups stream sequence that something still points to. */
function lowestOpenSeq(state: ControllerState): number {
  const open = Object.values(state.groups).flatMap((groups) => Object.values(groups.receipts));
  const again = Object.values(state.history).flat();
  const queued = Object.values(state.groups).flatMap(({ queue }) => queue);
  const leased = Object.values(state.leases).flatMap(({ items }) => items);
  const begun = [...queued, ...leased].flatMap((item) => ("partial" in item && item.partial?.streamSeq) || []);
  const seqs = [...open, ...again].map(({ streamSeq }) => streamSeq);
  return [...seqs, ...begun].reduce((min, seq) => Math.min(min, seq), Number.MAX_SAFE_INTEGER);
}

/** A checkpoint failed: the newest version is wanted instead, after the pause of its rule, unless the rule ends the job. Pure. */
export function applySaveFailed(state: ControllerState, event: ReportOf<"checkpoint.failed">): Change<ControllerState> {
  const failures = state.checkpoints.failures + 1;
  const { action, afterMs } = decideFailure(state.plan.failure, "checkpoint_io", failures);
  const retryAtMs = state.nowMs + afterMs;
  const answer = saveAnswered(state.members[event.from], event.body);
  const next = withMember(state, event.from, { ...answer, retryAtMs });
  const detail = `step ${event.body.step}: ${event.body.cause}`;
  const effects = [announce("alarm.raised", { alarm: "checkpoint", detail })];
  if (action === "abort" && !next.ending) {
    const reason = `${failures} checkpoints in a row failed, the last one of ${detail}`;
    return { state: { ...next, ending: { outcome: "failed", reason, announced: false } }, effects };
  }
  const checkpoints = { ...next.checkpoints, failures, wantedStep: state.step.step - 1 };
  return { state: { ...next, checkpoints }, effects };
}
