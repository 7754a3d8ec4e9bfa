/** Who makes the initial weights, and who pulls the committed ones from whom (semantics 2, 6.3, 6.4). */
import { type Body, sectionsOfPart, traitsOf } from "@muster/protocol";
import { withEntry } from "../../table/table.ts";
import { isSame, type VersionKey } from "../../version-key.ts";
import { type Change, type ControllerEffect, command } from "../events.ts";
import { isFlaky } from "../members/apply-verdict.ts";
import { crowd } from "../members/crowd.ts";
import { withVersionOrder } from "../orders.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf, withMember } from "../state.ts";
import { keepersOf } from "./memory.ts";
import { servesTraining, servingHolders, wholeHolders } from "./parts.ts";
import { holdersMax, rotated, sourcesFor, supplyOf } from "./weight-sources.ts";

/**
 * Has the first policy replica make, load or restore the weights, when nobody has any; for a checkpoint one on the host where it was written,
 * if there is one. Pure.
 */
export function planInitialWeights(state: ControllerState): Change<ControllerState> | null {
  if (state.weights || state.ending || crowd.of(state.members).beginning > 0) return null;
  const free = membersOf(state, "policy").filter((member) => isFree(state, member));
  const healthy = free.filter(({ health }) => health === "healthy");
  const first = healthy.find(({ host }) => host === state.checkpoints.saved?.host) ?? healthy[0] ?? free[0];
  if (!first) return null;
  const body = beginningOf(state, first);
  if (!body) return null;
  const { lineage, version } = body;
  const withinMs = state.plan.timing.gatherMs;
  const ordered = withVersionOrder(state, first, { kind: "weights.initialize", lineage, version, withinMs });
  return { state: withMember(state, first.id, ordered), effects: [command(first, "weights.initialize", body)] };
}

/** The order to begin a lineage; `null` while whoever keeps its first version is a suspect. */
function beginningOf({ restore, ...state }: ControllerState, first: Member): Body<"weights.initialize"> | null {
  const { lineage, version, source } = restore;
  if (source.kind !== "memory") return { lineage, version, source };
  const { step: _, sections, ...memory } = source;
  const keepers = rotated(keepersOf({ restore, ...state }, source), first);
  if (keepers.length === 0) return null;
  return { lineage, version, source: { ...memory, sections: [...sections], holders: wholeHolders(keepers) } };
}

/**
 * Sends every free replica that does not hold the committed version to its sources. Policy replicas need the `training` part too, so they
 * pull from those that keep it: policy replicas, and the memory of checkpoint actors. That is for others as well when nobody else has the
 * version. Pure.
 */
export function planPulls(state: ControllerState): Change<ControllerState> | null {
  const { weights } = state;
  if (!weights || state.ending) return null;
  const receivers = receiversOf(state, weights);
  // With a thousand members nearly every look finds nothing to do: who could supply whom is asked only then.
  if (receivers.length === 0) return null;
  const { lineage, version } = weights;
  const order = { kind: "weights.pull", lineage, version, withinMs: state.plan.timing.pullMs } as const;
  const kept = keepersOf(state, weights);
  const known = supplyOf(state);
  const supply = known.holding.length > 0 ? known : { ...known, holding: kept };
  const policies = supply.holding.filter((member) => member.role === "policy" && servesTraining(member));
  const fetching = [...supply.fetching];
  const effects: ControllerEffect[] = [];
  let { members } = state;
  for (const member of receivers) {
    const isPolicy = member.role === "policy";
    const sources = isPolicy
      ? [...rotated(policies, member), ...rotated(kept, member)].slice(0, holdersMax)
      : sourcesFor(member, { ...supply, fetching });
    if (sources === null || supply.holding.length === 0 || sources.length === 0) continue;
    const trusted = trustedFirst(sources);
    const holders = isPolicy ? wholeHolders(trusted) : servingHolders(trusted);
    const sections = isPolicy ? weights.sections : sectionsOfPart(weights.sections, "serving");
    effects.push(command(member, "weights.pull", { lineage, version, sections: [...sections], holders }));
    members = withEntry(members, member.id, withVersionOrder(state, member, order));
    if (!isPolicy) fetching.push(member);
  }
  return effects.length > 0 ? { state: { ...state, members }, effects } : null;
}

/** Who is free and should hold the committed version and does not: trainers first, then samplers, each in order of arrival. */
function receiversOf(state: ControllerState, weights: VersionKey): readonly Member[] {
  const behind = crowd.select(
    state.members,
    ({ idleWith }) => idleWith.some((held) => !isSame(held, weights)),
    (member) =>
      traitsOf(member.role).holdsWeights &&
      isFree(state, member) &&
      member.health !== "draining" &&
      !holdsCurrent(state, member),
  );
  const isTrainer = ({ role }: Member): number => Number(role === "policy");
  return behind.sort((a, b) => isTrainer(b) - isTrainer(a) || a.joinedSeq - b.joinedSeq);
}

/** Whoever may be gone is the last choice. Stable. */
function trustedFirst(sources: readonly Member[]): readonly Member[] {
  const isDoubtful = (source: Member): boolean =>
    source.health === "suspect" || source.health === "hung" || isFlaky(source);
  return [...sources.filter((source) => !isDoubtful(source)), ...sources.filter(isDoubtful)];
}

/** True when a member can take a new order now. Pure. */
export function isFree(state: ControllerState, member: Member): boolean {
  return member.order === null && member.retryAtMs <= state.nowMs;
}
