/** The table of leases, and who holds which: thousands of samplers are asked for their own after every input. */
import { entriesOf, type Table, withEntry, withoutEntry } from "../../table/table.ts";
import type { ControllerState, Lease } from "../state.ts";

type Leases = ControllerState["leases"];

/** A lease with its id. */
export type OwnLease = readonly [id: string, lease: Lease];

/** The id of the n-th lease of a job. Pure. */
export function leaseIdOf(term: number, n: number): string {
  return `${term}-${n}`;
}

/** The how-manieth lease of its job one is; `NaN` for what is no id of a lease. Pure. */
function leaseNumberOf(leaseId: string): number {
  return Number(/^\d+-(\d+)$/.exec(leaseId)?.[1]);
}

/** True when a lease was made before an evaluation was opened: what it holds is of an earlier one. Pure. */
export function isEarlier({ leasesBefore = 0 }: { readonly leasesBefore?: number }, leaseId: string): boolean {
  return !(leaseNumberOf(leaseId) > leasesBefore);
}

/** Leases by holder. It follows from the table, and from that of the table before. */
const indices = new WeakMap<Leases, Table<readonly OwnLease[]>>();

/** The leases of a holder, with their ids. Pure. */
export function leasesOf({ leases }: Pick<ControllerState, "leases">, holder: string): readonly OwnLease[] {
  return holdersOf(leases)[holder] ?? [];
}

/**
 * How many leases these count as: one that is larger than others are, because a sampler got its whole share of a step at once, counts as those that it
 * stands for. Pure.
 */
export function loadOf(own: readonly OwnLease[], leaseGroupsMax: number): number {
  return own.reduce((sum, [, { items }]) => {
    const [first] = items;
    return sum + (first?.purpose === "train" ? Math.ceil(items.length / leaseGroupsMax) : 1);
  }, 0);
}

/** Leases by holder, for who has any. Pure. */
export function holdersOf(leases: Leases): Table<readonly OwnLease[]> {
  const known = indices.get(leases);
  if (known) return known;
  const found = byHolder(leases);
  // no mutant: what is not kept is found again
  indices.set(leases, found);
  return found;
}

/** The table with a lease made or changed. Pure. */
export function withLease(leases: Leases, id: string, lease: Lease): Leases {
  const { holder } = lease;
  const index = holdersOf(leases);
  const own = index[holder] ?? [];
  const isKnown = leases[id] !== undefined;
  const next = withEntry(leases, id, lease);
  const owned: readonly OwnLease[] = isKnown
    ? own.map((entry) => (entry[0] === id ? [id, lease] : entry))
    : [...own, [id, lease]];
  if (!isKnown || leases[id]?.holder === holder)
    // no mutant: what is not kept is found again
    indices.set(next, withEntry(index, holder, owned));
  return next;
}

/** From so many on it is cheaper to write the table anew. */
// no mutant: what comes out is the same table
const manyMin = 64;

/** The table with new leases. Pure. */
export function withLeases(leases: Leases, made: readonly OwnLease[]): Leases {
  // no mutant: what comes out is the same table
  if (made.length >= manyMin) return Object.fromEntries([...entriesOf(leases), ...made]);
  return made.reduce((table, [id, lease]) => withLease(table, id, lease), leases);
}

/** The table without a lease. Pure. */
export function withoutLease(leases: Leases, id: string): Leases {
  const lease = leases[id];
  if (!lease) return leases;
  const index = holdersOf(leases);
  const left = (index[lease.holder] ?? []).filter(([other]) => other !== id);
  const next = withoutEntry(leases, id);
  const holders = left.length > 0 ? withEntry(index, lease.holder, left) : withoutEntry(index, lease.holder);
  // no mutant: what is not kept is found again
  indices.set(next, holders);
  return next;
}

function byHolder(leases: Leases): Table<readonly OwnLease[]> {
  const all = new Map<string, OwnLease[]>();
  for (const entry of Object.entries(leases)) {
    const own = all.get(entry[1].holder);
    if (own) own.push(entry);
    else all.set(entry[1].holder, [entry]);
  }
  return Object.fromEntries(all);
}
