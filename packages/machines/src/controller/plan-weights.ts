/** Who makes the initial weights, and who pulls the committed ones from whom (semantics 2, 6.3, 6.4). */
import type { Holder } from "@muster/protocol";
import { type Change, type ControllerEffect, command } from "./events.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf, withMember } from "./state.ts";

/** Has the first policy replica make, load or restore the weights, when nobody has any. Pure. */
export function planInitialWeights(state: ControllerState): Change<ControllerState> | null {
  if (state.weights || state.ending) return null;
  const policies = membersOf(state, "policy");
  if (policies.some(({ order }) => order?.kind === "weights.initialize")) return null;
  const free = policies.filter((member) => isFree(state, member));
  const first = free.find(({ health }) => health === "healthy") ?? free[0];
  if (!first) return null;
  const body = state.restore;
  const order = {
    kind: "weights.initialize",
    lineage: body.lineage,
    version: body.version,
    dueAtMs: state.nowMs + state.plan.timing.gatherMs,
  } as const;
  return { state: withMember(state, first.id, { order }), effects: [command(first, "weights.initialize", body)] };
}

/**
 * Sends every free replica that does not hold the committed version to its holders. Policy replicas need the optimizer
 * state too, so they pull from policy replicas only; rollouts prefer policies and fall back on each other. Pure.
 */
export function planPulls(state: ControllerState): Change<ControllerState> | null {
  const { weights } = state;
  if (!weights || state.ending) return null;
  const policies = membersOf(state, "policy");
  const rollouts = membersOf(state, "rollout");
  const sources = policies.filter((member) => holdsCurrent(state, member));
  const others = rollouts.filter((member) => holdsCurrent(state, member));
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const member of [...policies, ...rollouts]) {
    if (!isFree(state, member) || member.health === "draining" || holdsCurrent(state, member)) continue;
    const isPolicy = member.role === "policy";
    const holders = holdersFor(member, isPolicy ? sources : [...sources, ...others]);
    if (holders.length === 0) continue;
    const sections = isPolicy ? weights.sections : weights.sections.filter(({ name }) => name === "weights");
    const { lineage, version } = weights;
    effects.push(command(member, "weights.pull", { lineage, version, sections: [...sections], holders }));
    const dueAtMs = state.nowMs + state.plan.timing.pullMs;
    next = withMember(next, member.id, { order: { kind: "weights.pull", lineage, version, dueAtMs } });
  }
  return effects.length > 0 ? { state: next, effects } : null;
}

/** Sources in an order of the receiver's own, so that receivers spread over them. Pure. */
function holdersFor(receiver: Member, sources: readonly Member[]): Holder[] {
  const usable = sources.filter((source) => source.id !== receiver.id && source.addresses.length > 0);
  const start = usable.length > 0 ? receiver.joinedSeq % usable.length : 0;
  return [...usable.slice(start), ...usable.slice(0, start)]
    .slice(0, 16)
    .map((source) => ({ id: source.id, addresses: [...source.addresses] }));
}

/** True when a member can take a new order now. Pure. */
export function isFree(state: ControllerState, member: Member): boolean {
  return member.order === null && member.retryAtMs <= state.nowMs;
}
