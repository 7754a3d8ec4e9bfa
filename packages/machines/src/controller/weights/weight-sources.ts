/**
 * Whom a rollout replica pulls weights from. Within a host the replica that is told first fetches the version and the others read its memory;
 * the fetching ones of all hosts form a chain, each taking bytes from the one before while they still arrive there.
 */
import { type ControllerState, holdsCurrent, type Member, membersOf } from "../state.ts";

/** Most links of the chain that a receiver is told of; whoever lost them all turns to a holder. */
const chainMax = 8;

/** Most holders in one order. */
export const holdersMax = 16;

/** The replicas that have the committed version, or are about to have it; in order of arrival where nothing else is said. */
export interface Supply {
  /** Members that hold it and serve it. */
  readonly holding: readonly Member[];
  /** Policy replicas that serve and have been told to apply it: they need no network for it. */
  readonly applying: readonly Member[];
  /** Healthy rollout replicas that have been told to pull it, in the order in which they were told. */
  readonly fetching: readonly Member[];
  /** True when rollout replicas serve what came to them from another host. */
  readonly rolloutsServe: boolean;
}

/** Where the committed version can be had now. Pure. */
export function supplyOf(state: ControllerState): Supply {
  const policies = membersOf(state, "policy").filter(serves);
  const rollouts = membersOf(state, "rollout");
  const holding = [...policies, ...rollouts.filter(serves)].filter((member) => holdsCurrent(state, member));
  const applying = policies.filter((member) => isOrdered(state, member, "step.apply"));
  const fetching = rollouts
    .filter((member) => member.health === "healthy" && isOrdered(state, member, "weights.pull"))
    .sort((a, b) => dueOf(a) - dueOf(b));
  // What lies in shards is taken piece by piece from the trainers, and nobody who took some of it can serve it.
  const isSharded = policies.some(({ ranks }) => ranks);
  return { holding, applying, fetching, rolloutsServe: state.plan.rolloutsServe && !isSharded };
}

/**
 * The sources of one rollout replica in order of preference: this host's, the chain upwards, then all holders beginning with another one for
 * each receiver. A receiver only ever waits for replicas that were told before it, so no two wait for each other. Pure.
 *
 * @returns `null` while a neighbour fetches the version and nobody knows yet where it serves.
 */
export function sourcesFor(receiver: Member, supply: Supply): readonly Member[] | null {
  const { holding, applying, fetching, rolloutsServe } = supply;
  const isLocal = ({ host }: Member): boolean => host === receiver.host;
  const local = [...rotated(holding.filter(isLocal), receiver), ...applying.filter(isLocal)];
  const rest = rotated(
    holding.filter((member) => !isLocal(member)),
    receiver,
  );
  if (local.length > 0 || !rolloutsServe) return [...local, ...rest].slice(0, holdersMax);
  const neighbour = fetching.find(isLocal);
  if (neighbour && !serves(neighbour)) return null;
  const supplied = new Set([...holding, ...applying].map(({ host }) => host)); // there nobody fetches over the network
  // In order of arrival, so that the chain of one version is the chain of the next.
  const chain = firstOfHosts(fetching)
    .filter(
      // no mutant: no two members have one place in the order of arrival
      (first) => first.joinedSeq < receiver.joinedSeq && serves(first) && !supplied.has(first.host) && !isLocal(first),
    )
    .sort((a, b) => a.joinedSeq - b.joinedSeq);
  return [...(neighbour ? [neighbour] : []), ...chain.slice(-chainMax).reverse(), ...rest].slice(0, holdersMax);
}

/** The first member of each host: the one that fetches over the network. */
function firstOfHosts(members: readonly Member[]): readonly Member[] {
  const firsts = new Map<string, Member>();
  for (const member of members) if (!firsts.has(member.host)) firsts.set(member.host, member);
  return [...firsts.values()];
}

/** Members in an order of the receiver's own, so that receivers spread over them. Pure. */
export function rotated(members: readonly Member[], receiver: Member): readonly Member[] {
  const others = members.filter(({ id }) => id !== receiver.id);
  // Of nobody there is no first one: then it is no number, and nothing is cut.
  const start = receiver.joinedSeq % others.length;
  return [...others.slice(start), ...others.slice(0, start)].slice(0, holdersMax);
}

/** True when others are sent to this member. A suspect serves on, but nobody is sent to it (semantics 1 DO). */
function serves({ addresses, health }: Member): boolean {
  return addresses.length > 0 && health !== "suspect";
}

const dueOf = ({ order }: Member): number => order?.dueAtMs ?? 0;

function isOrdered({ weights }: ControllerState, { order }: Member, kind: "step.apply" | "weights.pull"): boolean {
  return order?.kind === kind && order.version === weights?.version && order.lineage === weights.lineage;
}
