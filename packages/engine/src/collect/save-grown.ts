/** Gives away what is drawn of unfinished groups now and then, so that little is lost with this process. */
import { type Clock, every } from "@muster/base";
import type { BegunGroup } from "@muster/protocol";

/** How a call gives away what it has begun while it goes on. */
export interface Save {
  /** Time between two looks. */
  readonly everyMs: number;
  /** Gets the groups that have more tokens than when it took them last. @returns False when it can not take them now. */
  readonly take: (begun: readonly BegunGroup[]) => boolean;
}

/** What a look finds of a group. */
export interface Begun<G> {
  readonly entry: G;
  readonly tokens: number;
  readonly group: () => BegunGroup;
}

/** Looks now and then, at groups that had so many tokens at first. @returns Stops it. */
export function saveGrown<G>(
  { everyMs, take }: Save,
  clock: Clock,
  atFirst: ReadonlyMap<G, number>,
  look: () => readonly Begun<G>[],
): () => void {
  const taken = new Map(atFirst);
  return every(clock, everyMs, () => {
    const grown = look().filter(({ entry, tokens }) => tokens > (taken.get(entry) ?? 0));
    if (grown.length === 0 || !take(grown.map(({ group }) => group()))) return;
    for (const { entry, tokens } of grown) taken.set(entry, tokens);
  });
}
