/** One training step: when it may run, and how the votes end it (semantics 6.1 and 6.2). */
import { listText } from "@muster/base";
import { type Body, decideFailure, type GroupReceipt } from "@muster/protocol";
import { sizeOf } from "../../table/table.ts";
import type { VersionKey } from "../../version-key.ts";
import { isLastLeaving } from "../checkpoints/plan-checkpoint.ts";
import { goBack } from "../checkpoints/plan-restore.ts";
import { announce, type Change, type ControllerEffect, command } from "../events.ts";
import { requeue, withGroups } from "../groups/leases.ts";
import { isSettled, receiptsOf, settleTrained } from "../groups/ledger.ts";
import { sampleUnreadable } from "../groups/sound-receipts.ts";
import { noteStep } from "../members/paces.ts";
import { evict } from "../orders.ts";
import { moved } from "../progress.ts";
import { rateOf, stalenessOf } from "../settings.ts";
import { groupsIn } from "../sizes.ts";
import {
  type ControllerState,
  endingWith,
  holdsCurrent,
  type Member,
  membersOf,
  meshMembersOf,
  type Vote,
  withMember,
  without,
} from "../state.ts";
import { keepOf } from "../weights/plan-publish.ts";
import { driftAlarms, driftOf, type Verdicts, verdictsOf } from "./agreement.ts";
import { committedBody } from "./committed.ts";
import { noteDivergence } from "./divergence.ts";
import { forgetLosses, noteLoss } from "./lost-attempts.ts";
import { batchReceiptsOf, isTrial, trialSurvived } from "./search-batch.ts";

/** Runs the next step when its groups are settled and the mesh is ready and whole. Pure. */
export function planStepRun(state: ControllerState): Change<ControllerState> | null {
  const { step, weights, mesh, plan } = state;
  const groups = state.groups[step.step];
  if (!weights || !groups || state.ending || step.state !== "sampling" || mesh.state !== "ready") return null;
  if (state.jobPhase?.phase === "rollout") return null;
  if (!isSettled(groups, groupsIn(state, step.step)) || state.evaluation) return null;
  const members = meshMembersOf(state);
  if (members.length < mesh.members.length || !members.every((member) => holdsCurrent(state, member) && !member.order))
    return null;
  if (isJoinerNear(state) || isLastLeaving(state)) return null;
  const receipts = receiptsOf(groups);
  const stale = receipts.filter(({ version }) => weights.version - version > stalenessOf(state, step.step));
  if (stale.length > 0) return sampleAgain(state, stale);
  if (receipts.length === 0) return skip(state, "no group of the step could be sampled", []);
  const body = runBodyOf(state, weights);
  const dueAtMs = state.nowMs + plan.timing.stepMs;
  return {
    state: { ...state, step: { ...step, state: "running", votes: {}, startedAtMs: state.nowMs, dueAtMs } },
    effects: members.map((member) => command(member, "step.run", body)),
  };
}

/** The order for the next step, or for the one that runs. Pure. */
export function runBodyOf(state: ControllerState, weights: VersionKey): Body<"step.run"> {
  const { step, mesh } = state;
  const { lineage, version } = weights;
  const batch = batchOf(batchReceiptsOf(state));
  const rate = rateOf(state, step.step);
  return {
    ...{ step: step.step, attempt: step.attempt, epoch: mesh.epoch, lineage, version, batch },
    ...(rate ? { rate } : {}),
  };
}

/** Ends the running step when its votes decide it. Pure. */
export function planStepOutcome(state: ControllerState): Change<ControllerState> | null {
  const { step, mesh } = state;
  if (step.state !== "running") return null;
  const survivors = meshMembersOf(state);
  if (survivors.length === 0) return retry(state, "every policy replica is lost", "loss");
  const voted = survivors.flatMap((member) => step.votes[member.id] ?? []);
  const refused = voted.filter(({ vote }) => vote === "abort");
  const unreadable = refused.find((vote) => (vote.unreadable ?? []).length > 0);
  if (unreadable) return retryUnreadable(state, unreadable);
  if (refused[0])
    return retry(state, refused[0].cause, refused.some(({ missing }) => missing.length > 0) ? "loss" : "failure");
  const living = new Set(survivors.map(({ id }) => id));
  const lostBeforeVote = mesh.members.find((id) => !living.has(id) && !step.votes[id]);
  if (lostBeforeVote) return retry(state, `${lostBeforeVote} was lost before its vote`, "loss");
  const hung = survivors.find(({ id, health }) => health === "hung" && !step.votes[id]);
  if (hung) return retry(state, `${hung.id} hangs`, "loss");
  if (voted.length < survivors.length) return state.nowMs < step.dueAtMs ? null : retryLate(state, survivors);
  if (isTrial(state)) return endTrial(state);
  if (voted.some(({ finite }) => !finite)) return skipNonFinite(state, survivors);
  return decideDigest(state, survivors);
}

/**
 * The candidate that a majority computed is committed; whoever has another one must pull (F3). When all who agreed are dead, nobody has their
 * candidate any more, and the batch runs again.
 */
function decideDigest(state: ControllerState, survivors: readonly Member[]): Change<ControllerState> {
  const verdicts = verdictsOf(state, survivors);
  if (!verdicts)
    return retry(state, "policy replicas computed different weights and no majority agrees", "disagreement");
  if (verdicts.same.length === 0) return retry(state, "those who computed the same weights are lost", "loss");
  return commit(state, verdicts);
}

function commit(state: ControllerState, verdicts: Verdicts): Change<ControllerState> {
  const { same: agreeing, drifted, divergent } = verdicts;
  const { step, mesh } = state;
  const groups = state.groups[step.step];
  // no mutant: a step begins at a version that trainers hold
  const { lineage, version: before } = state.weights ?? { lineage: 0, version: 0 };
  const version = before + 1;
  const sections = [...(step.votes[agreeing[0]?.id ?? ""]?.sections ?? [])];
  const weights = { lineage, version, sections };
  const receipts = groups ? receiptsOf(groups) : [];
  const attempt = { step: step.step, attempt: step.attempt, epoch: mesh.epoch };
  const dueAtMs = state.nowMs + state.plan.timing.commandMs;
  const order = { kind: "step.apply", lineage, version, dueAtMs } as const;
  const ordered = agreeing.reduce((next, member) => withMember(next, member.id, { order }), state);
  const behind = divergent.reduce((next, member) => withMember(next, member.id, { held: null }), ordered);
  const cleared = drifted.reduce((next, { id }) => withMember(next, id, { held: null, isFollowing: true }), behind);
  const drift = driftOf(state, verdicts);
  const committed: ControllerState = {
    ...advance(noteDivergence(noteStep(cleared), step.step, divergent)),
    weights,
    history: { ...state.history, [step.step]: receipts },
    ledger: settleTrained(state.ledger, receipts),
    nonFiniteInRow: 0,
    wentBackAt: isBeyondDoubt(state) ? null : state.wentBackAt,
  };
  const applied = { ...attempt, lineage, version, sections, keep: keepOf(committed) };
  const next: ControllerState = { ...committed, applied };
  const effects: ControllerEffect[] = [
    ...agreeing.map((member) => command(member, "step.apply", applied)),
    ...divergent.map((member) =>
      command(member, "step.discard", { ...attempt, reason: "the majority computed other weights" }),
    ),
    ...drifted.map((member) =>
      command(member, "step.discard", { ...attempt, reason: "the first rank's weights count" }),
    ),
    ...divergent.map((member) =>
      announce("alarm.raised", {
        alarm: "divergence",
        detail: `${member.id} computed other weights in step ${step.step}`,
      }),
    ),
    ...driftAlarms(state, drift),
    announce("step.committed", {
      ...committedBody(state, next, { weights, receipts, agreeing }),
      ...(drifted.length > 0 ? { drifted: drifted.length } : {}),
      ...(drift === null ? {} : { drift }),
    }),
  ];
  return { state: next, effects };
}

/** A commit beyond the step at which the job went back ends the doubt about its weights. */
function isBeyondDoubt({ wentBackAt, step }: ControllerState): boolean {
  return wentBackAt === null || step.step > wentBackAt;
}

/** What nobody can read is sampled again. Only when that helps again and again not does it count as a failure of the step. */
function retryUnreadable(state: ControllerState, { cause, unreadable = [] }: Vote): Change<ControllerState> {
  const times = (state.step.unreadable ?? 0) + 1;
  const counted = { ...state, step: { ...state.step, unreadable: times } };
  const retried = retry(counted, cause, times > state.plan.limits.stepAttemptsMax ? "failure" : "unreadable");
  const again = sampleUnreadable(retried.state, unreadable, cause);
  return { state: again.state, effects: [...retried.effects, ...again.effects] };
}

/** Trainers survive what was on trial; what they computed is thrown away. */
function endTrial(state: ControllerState): Change<ControllerState> {
  const retried = retry(state, "the groups on trial end no trainer", "trial");
  const survived = trialSurvived(retried.state);
  return { state: survived.state, effects: [...retried.effects, ...survived.effects] };
}

type Retry = "loss" | "failure" | "disagreement" | "unreadable" | "trial";

const uncounted: readonly Retry[] = ["loss", "unreadable", "trial"];

/**
 * Same batch, next attempt, in a new epoch: the old one has an aborted collective in it, but for one in which all voted. After a loss the next mesh waits a
 * moment, so that the evidence of who is lost can arrive.
 */
function retry(state: ControllerState, reason: string, why: Retry): Change<ControllerState> {
  const { step, mesh, plan } = state;
  const attempt = { step: step.step, attempt: step.attempt, epoch: mesh.epoch };
  const discards = meshMembersOf(state).map((member) => command(member, "step.discard", { ...attempt, reason }));
  const effects = [...discards, announce("step.retried", { step: step.step, attempt: step.attempt + 1, reason })];
  const failures = step.failures + (uncounted.includes(why) ? 0 : 1);
  const dueAtMs = state.nowMs + (why === "loss" && isMeshWhole(state) ? plan.timing.commandMs / 25 : 0);
  const next: ControllerState = {
    ...(why === "loss" ? noteLoss(state, reason) : state),
    mesh: why === "trial" ? mesh : { ...mesh, state: "broken", dueAtMs },
    step: { ...step, attempt: step.attempt + 1, failures, state: "sampling", votes: {} },
  };
  if (failures < plan.limits.stepAttemptsMax) return { state: next, effects };
  const detail = `step ${step.step} failed ${failures} times: ${reason}`;
  // Weights from before may agree where these do not (F3).
  if (why === "disagreement" && state.wentBackAt === null) {
    const back = goBack({ ...next, wentBackAt: step.step }, detail);
    return { state: back.state, effects: [...effects, ...back.effects] };
  }
  return { state: endingWith(next, "failed", detail), effects };
}

function isMeshWhole(state: ControllerState): boolean {
  return meshMembersOf(state).length === state.mesh.members.length;
}

/** Groups that became too old while they waited are generated anew: the bound holds when they are used, too (S18). */
function sampleAgain(state: ControllerState, stale: readonly GroupReceipt[]): Change<ControllerState> {
  const { step, dropped } = state;
  const groups = state.groups[step.step];
  if (!groups) return { state, effects: [] };
  const old = new Set(stale.map(({ index }) => String(index)));
  const receipts = Object.fromEntries(Object.entries(groups.receipts).filter(([index]) => !old.has(index)));
  const counted = { ...state, dropped: { ...dropped, stale: dropped.stale + stale.length } };
  const items = stale.map(({ index, attempt }) => ({ purpose: "train" as const, step: step.step, index, attempt }));
  return requeue(withGroups(counted, step.step, { ...groups, receipts }), items, {
    holder: "",
    reason: "stale",
    failure: null,
  });
}

/**
 * A step whose loss or gradient was not finite is skipped and its batch given up. Several in a row mean that the weights are at fault:
 * then the newest checkpoint is restored. That they are so again right after it ends the job (semantics 6.2, S23, S24).
 */
function skipNonFinite(state: ControllerState, survivors: readonly Member[]): Change<ControllerState> {
  const reason = "a loss or gradient was not finite";
  const inRow = state.nonFiniteInRow + 1;
  const skipped = skip(state, reason, survivors);
  const next: ControllerState = { ...skipped.state, nonFiniteInRow: inRow };
  const { action } = decideFailure(state.plan.failure, "non_finite", inRow);
  if (action === "retry") return { state: next, effects: skipped.effects };
  const detail = `${inRow} steps in a row had a loss or gradient that was not finite, the last one step ${state.step.step}`;
  if (action === "abort" || state.wentBackAt !== null) {
    const again = state.wentBackAt === null ? "" : " again after going back to a checkpoint";
    return { state: endingWith(next, "failed", `${detail}${again}`), effects: skipped.effects };
  }
  const back = goBack({ ...next, nonFiniteInRow: 0, wentBackAt: state.step.step }, detail);
  return { state: back.state, effects: [...skipped.effects, ...back.effects] };
}

/** The weights stay as they are; the batch is given up and the job goes on with the next step. */
function skip(state: ControllerState, reason: string, survivors: readonly Member[]): Change<ControllerState> {
  const { step, mesh, ledger } = state;
  const groups = state.groups[step.step];
  const lost = sizeOf(groups?.receipts ?? {}) * state.plan.groupSize;
  const attempt = { step: step.step, attempt: step.attempt, epoch: mesh.epoch };
  return {
    state: {
      ...advance(state),
      history: { ...state.history, [step.step]: [] },
      ledger: { ...ledger, quarantined: ledger.quarantined + lost },
    },
    effects: [
      ...survivors.map((member) => command(member, "step.discard", { ...attempt, reason })),
      announce("step.skipped", { step: step.step, version: state.weights?.version ?? 0, reason }),
    ],
  };
}

function advance(state: ControllerState): ControllerState {
  const { step } = state;
  return {
    ...forgetLosses(moved(state), step.step),
    groups: without(state.groups, String(step.step)),
    step: { ...step, step: step.step + 1, attempt: 1, failures: 0, unreadable: 0, state: "sampling", votes: {} },
  };
}

/** A joiner that is pulling this very version is worth the short wait: its order has a deadline, and is not its second. */
function isJoinerNear(state: ControllerState): boolean {
  return membersOf(state, "policy").some(
    ({ order, health, unanswered }) =>
      health === "healthy" &&
      unanswered === 0 &&
      order?.kind === "weights.pull" &&
      order.lineage === state.weights?.lineage &&
      order.version === state.weights.version,
  );
}

function batchOf(receipts: readonly GroupReceipt[]): Body<"step.run">["batch"] {
  const bySeq = new Map<number, string[]>();
  for (const { streamSeq, step, index } of receipts)
    bySeq.set(streamSeq, [...(bySeq.get(streamSeq) ?? []), `${step}.${index}`]);
  return [...bySeq].sort(([a], [b]) => a - b).map(([streamSeq, groupIds]) => ({ streamSeq, groupIds }));
}

/** Members that did not vote by the deadline of the step are out: they hang, whatever their heartbeat says. */
function retryLate(state: ControllerState, survivors: readonly Member[]): Change<ControllerState> {
  const missing = survivors.filter(({ id }) => !state.step.votes[id]);
  const evicted = evict(state, missing, `no vote on step ${state.step.step} in time`);
  const retried = retry(evicted.state, `no vote in time from ${listText(missing.map(({ id }) => id))}`, "loss");
  return { state: retried.state, effects: [...evicted.effects, ...retried.effects] };
}
