/**
 * Copies of checkpoints that are on too few hosts, and will not come to more: something newer is ordered, and nobody writes them any more. Without
 * the quorum they would fill the disk, because what is newer than the checkpoint that counts stays. So they may go, and from then on they never count.
 */
import type { Body } from "@muster/protocol";
import { type Checkpoints, type ControllerState, type KeptCheckpoint, membersOf } from "../state.ts";

/** One copy of a checkpoint, whatever else has its name. */
type SupersededCopy = NonNullable<Checkpoints["superseded"]>[number];

/** Copies that are named in one order, at most. */
const namedMax = 64;

/** What an order to save says of copies that may go. Pure. */
export function supersededOf({ superseded }: Checkpoints): Pick<Body<"checkpoint.save">, "superseded"> {
  return superseded ? { superseded: [...superseded] } : {};
}

/**
 * Where checkpoints stand once a version is ordered: copies of older ones that nobody writes any more may go. The newest copy stays until a newer one is
 * known, so that whoever resumes without the journal finds it. Pure.
 */
export function withSuperseded(state: ControllerState, ordered: number): Checkpoints {
  const { checkpoints, weights } = state;
  const copies = checkpoints.copies ?? [];
  const written = membersOf(state, "checkpoint").flatMap(({ order }) =>
    order?.kind === "checkpoint.save" && order.lineage === weights?.lineage ? order.version : [],
  );
  const newest = Math.max(...copies.map(({ version }) => version));
  const before = Math.min(ordered, newest, ...written);
  const old = copies.filter(({ version }) => version < before);
  if (old.length === 0) return checkpoints;
  const countsFrom = Math.max(checkpoints.countsFrom ?? 0, ...old.map(({ version }) => version + 1));
  return { ...withNamed(checkpoints, old), copies: copies.filter((copy) => !old.includes(copy)), countsFrom };
}

/** True when a version may be counted still: no copy of it was named as one that may go. Pure. */
export function mayCount({ countsFrom = 0 }: Checkpoints, { version }: KeptCheckpoint): boolean {
  return version >= countsFrom;
}

/** Where checkpoints stand when these copies may go. Those in journals of programs that did not keep their manifests can not be named. Pure. */
export function withNamed(checkpoints: Checkpoints, copies: readonly KeptCheckpoint[]): Checkpoints {
  const named = copies.flatMap(({ path, manifestDigest }): SupersededCopy | [] => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    return manifestDigest === undefined ? [] : { name, manifestDigest };
  });
  if (named.length === 0) return checkpoints;
  const isNamed = (copy: SupersededCopy) =>
    named.some(({ name, manifestDigest }) => copy.name === name && copy.manifestDigest === manifestDigest);
  const others = (checkpoints.superseded ?? []).filter((copy) => !isNamed(copy));
  return { ...checkpoints, superseded: [...others, ...named].slice(-namedMax) };
}
