/**
 * The public fact of a commit, with the figures of its step. Sums and counts come from the votes of the attempt that is committed, and from its receipts;
 * they are divided here and nowhere else.
 */
import {
  type BatchFigures,
  type Body,
  type ComponentFigures,
  type GroupReceipt,
  type StepComponent,
  type StepStats,
  samplesMax,
} from "@muster/protocol";
import { countsOf, ledgerOf } from "../groups/ledger.ts";
import { paceOf } from "../members/paces.ts";
import { groupsIn } from "../sizes.ts";
import { type ControllerState, type Member, membersOf } from "../state.ts";

type Committed = Body<"step.committed">;

/** Members whose versions are named. */
const namedMax = 64;

/** What is committed: its weights, its groups, and who computed the weights. */
export interface CommitResult {
  readonly weights: NonNullable<ControllerState["weights"]>;
  readonly receipts: readonly GroupReceipt[];
  readonly agreeing: readonly Member[];
}

/** What the commit of the step that runs in `before`, and is over in `after`, says. Pure. */
export function committedBody(before: ControllerState, after: ControllerState, result: CommitResult): Committed {
  const { receipts, agreeing } = result;
  const { lineage, version, sections } = result.weights;
  const size = groupsIn(before, before.step.step);
  const stats = Object.values(before.step.votes).flatMap(({ stats: own }) => own ?? []);
  const winners = agreeing.flatMap(({ id }) => before.step.votes[id]?.stats ?? []);
  const sum = (of: (stats: StepStats) => number): number => stats.reduce((total, own) => total + of(own), 0);
  const trained = Math.max(
    1,
    sum(({ tokens }) => tokens),
  );
  const { completed } = countsOf(receipts);
  const isDrawn = before.plan.isSupervised !== true;
  const tokens = receipts.reduce((total, receipt) => total + receipt.tokens, 0);
  const oldest = receipts.reduce((min, receipt) => Math.min(min, receipt.version), version);
  const times = {
    computeMs: Math.max(0, ...stats.map(({ computeMs }) => computeMs)),
    reduceMs: Math.max(0, ...stats.map(({ reduceMs }) => reduceMs)),
  };
  return {
    step: before.step.step,
    attempt: before.step.attempt,
    epoch: before.mesh.epoch,
    lineage,
    version,
    sections: [...sections],
    ...(isDrawn && { reward: receipts.reduce((sum, { rewardSum }) => sum + rewardSum, 0) / Math.max(1, completed) }),
    tokens,
    staleness: Math.max(0, version - 1 - oldest),
    groups: receipts.map(({ step, index }) => `${step}.${index}`),
    ledger: ledgerOf(after),
    members: stats.length,
    stepMs: before.nowMs - before.step.startedAtMs,
    ...times,
    gradNorm: winners[0]?.gradNorm ?? 0,
    clipFraction: sum(({ clipped }) => clipped) / trained,
    entropy: sum(({ entropySum }) => entropySum) / trained,
    loss: sum(({ lossSum }) => lossSum) / trained,
    ...(isDrawn && { approxKl: sum(({ klSum }) => klSum) / trained, ...gapFieldsOf(stats) }),
    ...klReferenceOf(stats),
    ...heldOutLossOf(stats),
    ...batchFieldsOf(receipts, winners, isDrawn),
    ...speedsOf(before, { tokens, groups: receipts.length, ...times }),
    held: heldIn(before, lineage),
    places: placesOf(receipts),
    ...(receipts.length < size ? { coverage: receipts.length / size } : {}),
  };
}

/** Distances of log-probabilities: of a part of the tokens they would depend on who computed which part, so all trainers say theirs, or none counts. */
function gapFieldsOf(stats: readonly StepStats[]): Partial<Committed> {
  const gaps = stats.flatMap(({ logprobGap }) => logprobGap ?? []);
  const tokens = gaps.reduce((sum, gap) => sum + gap.tokens, 0);
  if (gaps.length < stats.length || tokens === 0) return {};
  return {
    logprobGap: gaps.reduce((sum, gap) => sum + gap.sum, 0) / tokens,
    logprobGapMax: Math.max(...gaps.map(({ max }) => max)),
  };
}

/** Of a divergence in the loss; as {@link gapFieldsOf}. */
function klReferenceOf(stats: readonly StepStats[]): Partial<Committed> {
  const sums = stats.flatMap(({ referenceKlSum }) => referenceKlSum ?? []);
  const tokens = stats.reduce((sum, own) => sum + own.tokens, 0);
  if (sums.length < stats.length || tokens === 0) return {};
  return { klReference: sums.reduce((sum, own) => sum + own, 0) / tokens };
}

/** On held-out rows; as {@link gapFieldsOf}. */
function heldOutLossOf(stats: readonly StepStats[]): Partial<Committed> {
  const parts = stats.flatMap(({ heldOut }) => heldOut ?? []);
  const tokens = parts.reduce((sum, own) => sum + own.tokens, 0);
  if (parts.length < stats.length || tokens === 0) return {};
  return { heldOutLoss: parts.reduce((sum, own) => sum + own.lossSum, 0) / tokens };
}

/**
 * What a trainer counted over the whole batch, where that fits the receipts: all read the same groups, so one of them is enough. Responses that are not
 * drawn have no rewards.
 */
function batchFieldsOf(
  receipts: readonly GroupReceipt[],
  winners: readonly StepStats[],
  isDrawn: boolean,
): Partial<Committed> {
  const { completed } = countsOf(receipts);
  const tokens = receipts.reduce((total, receipt) => total + receipt.tokens, 0);
  const fits = ({ groups, trajectories, longest }: BatchFigures): boolean =>
    groups === receipts.length && trajectories === completed && longest <= tokens;
  const batch = winners.flatMap(({ batch: own }) => own ?? []).find(fits);
  if (!batch) return {};
  const divisor = Math.max(1, completed);
  return {
    lr: batch.lr,
    ...(batch.referenceKl === undefined ? {} : { klReference: batch.referenceKl }),
    lengthMean: tokens / divisor,
    lengthMax: batch.longest,
    truncated: batch.truncated / divisor,
    ...(isDrawn && {
      rewardSpread: Math.sqrt(batch.rewardSquares / divisor),
      rewardLeast: batch.rewardLeast,
      rewardMost: batch.rewardMost,
      evenGroups: batch.evenGroups / Math.max(1, batch.groups),
    }),
    ...(batch.components ? { components: batch.components.map(componentOf) } : {}),
    ...(batch.componentsMore ? { componentsMore: batch.componentsMore } : {}),
  };
}

function componentOf({ squares, ...said }: ComponentFigures): StepComponent {
  return { ...said, spread: Math.sqrt(squares / said.count) };
}

/** How fast each role is while it works: trainers by this step, samplers by what they usually need for a group. */
function speedsOf(
  state: ControllerState,
  step: Pick<Committed, "tokens" | "computeMs" | "reduceMs"> & { readonly groups: number },
): Partial<Committed> {
  const busyMs = step.computeMs + step.reduceMs;
  const groupsPerMs = membersOf(state, "rollout").reduce((total, member) => {
    const ms = paceOf(state, member).msPerGroup ?? 0;
    return total + (ms > 0 ? 1 / ms : 0);
  }, 0);
  const tokensPerGroup = step.tokens / Math.max(1, step.groups);
  return {
    ...(busyMs > 0 ? { trainTokensPerS: (step.tokens / busyMs) * 1000 } : {}),
    ...(groupsPerMs > 0 ? { sampleTokensPerS: groupsPerMs * tokensPerGroup * 1000 } : {}),
  };
}

/** Where the groups lie that may be shown. */
function placesOf(receipts: readonly GroupReceipt[]): NonNullable<Committed["places"]> {
  return receipts
    .filter(({ index }) => index < samplesMax.groups)
    .map(({ index, streamSeq }) => ({ index, streamSeq }));
}

/** What trainers and samplers hold, who is furthest behind first. */
function heldIn(state: ControllerState, lineage: number): NonNullable<Committed["held"]> {
  const members = [...membersOf(state, "policy"), ...membersOf(state, "rollout")];
  return members
    .map(({ id, held }) => ({ id, version: held?.lineage === lineage ? held.version : null }))
    .sort((a, b) => placeOf(a) - placeOf(b) || byId(a, b))
    .slice(0, namedMax);
}

type Holding = NonNullable<Committed["held"]>[number];

/** Who holds nothing is before who holds the first version. */
// no mutant: how far before makes no difference
const placeOf = ({ version }: Holding): number => version ?? -1;

// no mutant: only the sign counts, and no two members have one id
const byId = (a: Holding, b: Holding): number => (a.id < b.id ? -1 : 1);
