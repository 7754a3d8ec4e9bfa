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

/** Members as an order names them to who reads `serving` alone. Pure. */
export function servingHolders(sources: readonly Member[]): Holder[] {
  return sources.map(({ id, addresses }) => ({ id, addresses: [...addresses] }));
}

/** Members as an order names them to who reads all of a version. Pure. */
export function wholeHolders(sources: readonly Member[]): Holder[] {
  return sources.map(({ id, addresses, training }) => ({
    ...{ id, addresses: [...addresses] },
    ...(training ? { training: [...training] } : {}),
  }));
}

/** Where a member serves what it holds. Of samplers there may be thousands: what they never have is not in their rows. Pure. */
export function addressesIn(
  { addresses, training }: Pick<Body<"weights.held">, "addresses" | "training">,
  { training: before }: Pick<Member, "training">,
): Pick<Member, "addresses" | "training"> {
  return training || before ? { addresses, training: training ?? null } : { addresses };
}
