/** In what two tables differ. Of two that came out of each other only the changed parts are looked at. */
import { type Table, treeOf } from "./table.ts";
import type { TrieNode } from "./trie.ts";

type Node<V> = TrieNode<readonly [string, V]>;

/** Keys under which two tables have not the same value. Some may come twice. Pure. */
export function* changedKeys<V>(before: Table<V>, after: Table<V>): Generator<string> {
  const [a, b] = [treeOf(before), treeOf(after)];
  const isKin = a && b && a.places === b.places && a.entries.depth === b.entries.depth;
  if (isKin) yield* changedIn(a.entries.root, b.entries.root, a.entries.depth);
  else yield* changedAnywhere(before, after);
}

function* changedAnywhere<V>(before: Table<V>, after: Table<V>): Generator<string> {
  if (before === after) return;
  for (const key of Object.keys(before)) if (before[key] !== after[key]) yield key;
  for (const key of Object.keys(after)) if (before[key] !== after[key]) yield key;
}

function* changedIn<V>(before: Node<V>, after: Node<V>, level: number): Generator<string> {
  if (before === after) return;
  // no mutant: one place further both are empty
  for (let i = 0; i < Math.max(before.length, after.length); i++) {
    const [a, b] = [before[i], after[i]];
    if (a === b) continue;
    if (level > 0) yield* changedIn((a ?? []) as Node<V>, (b ?? []) as Node<V>, level - 1);
    else for (const entry of [a, b]) if (entry) yield entry[0] as string;
  }
}
