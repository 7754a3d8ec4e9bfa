/** Who serves which part of the committed version, and how holders are named in an order. */
import type { Body, Holder } from "@muster/protocol";
import { type ControllerState, holdsCurrent, type Member, membersOf } from "../state.ts";

/** Where others can pull the `training` part of what a member holds; empty where it was not kept. Pure. */
function trainingAddressesOf({ addresses, training }: Member): readonly string[] {
  return training ?? addresses;
}

/** True when the `training` part of what a member holds can be pulled from it. Pure. */
export function servesTraining(member: Member): boolean {
  return member.addresses.length > 0 && trainingAddressesOf(member).length > 0;
}

/** Policy replicas that hold the committed version and serve all of it. Pure. */
export function trainersServing(state: ControllerState): readonly Member[] {
  return membersOf(state, "policy").filter((member) => holdsCurrent(state, member) && servesTraining(member));
}

/** Most processes whose addresses whoever pulls has to read for one order. */
const ranksNamedMax = 16_384;

/** Most sources in one order, whatever they are. */
const sourcesNamedMax = 64;

/** As many of the first sources as an order has room for, one at least. Pure. */
function bounded(sources: readonly Member[]): readonly Member[] {
  // no mutant: up to 256 processes each are no bound
  const ranks = sources.reduce((most, member) => Math.max(most, member.ranks?.of ?? 1), 1);
  return sources.slice(0, Math.max(1, Math.min(sourcesNamedMax, Math.floor(ranksNamedMax / ranks))));
}

/** Members as an order names them to who reads `serving` alone. Pure. */
export function servingHolders(sources: readonly Member[]): Holder[] {
  return bounded(sources).map(({ id, addresses, ranks }) => ({
    ...{ id, addresses: [...addresses] },
    ...(ranks ? { ranks } : {}),
  }));
}

/** Members as an order names them to who reads all of a version. Pure. */
export function wholeHolders(sources: readonly Member[]): Holder[] {
  return bounded(sources).map(({ id, addresses, training, ranks }) => ({
    ...{ id, addresses: [...addresses] },
    ...(training ? { training: [...training] } : {}),
    ...(ranks ? { ranks } : {}),
  }));
}

/** Where a member serves what it holds. Of samplers there may be thousands: what they never have is not in their rows. Pure. */
export function addressesIn(
  { addresses, training, ranks }: Pick<Body<"weights.held">, "addresses" | "training" | "ranks">,
  before: Pick<Member, "training" | "ranks">,
): Pick<Member, "addresses" | "training" | "ranks"> {
  return {
    addresses,
    ...(training || before.training ? { training: training ?? null } : {}),
    ...(ranks || before.ranks ? { ranks: ranks ?? null } : {}),
  };
}
