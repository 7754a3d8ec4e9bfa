/** A persistent array with holes: a tree of 32 branches in which a change copies the path to one slot and shares all else. */

// no mutant: how wide a node is shows only in the time that a change takes
const width = 32;

/** A branch, or what stands in its slots at the lowest level. Never changed once it is made. */
export type TrieNode<T> = readonly (TrieNode<T> | T | undefined)[];

/** The whole tree. */
export interface Trie<T> {
  readonly root: TrieNode<T>;
  /** Levels above the lowest one. */
  readonly depth: number;
}

/** A tree with nothing in it. */
// no mutant: with a level more than it needs a tree has the same slots
export const emptyTrie: Trie<never> = { root: [], depth: 0 };

/** What stands in a slot. Pure. */
export function slotOf<T>({ root, depth }: Trie<T>, slot: number): T | undefined {
  if (slot >= width ** (depth + 1)) return undefined;
  let node: TrieNode<T> | undefined = root;
  for (let level = depth; level > 0; level--) node = node?.[branchOf(slot, level)] as TrieNode<T> | undefined;
  return node?.[branchOf(slot, 0)] as T | undefined;
}

/** The tree with another value in a slot; `undefined` leaves a hole. Pure. */
export function withSlot<T>(trie: Trie<T>, slot: number, value: T | undefined): Trie<T> {
  let { root, depth } = trie;
  for (; slot >= width ** (depth + 1); depth++) root = [root];
  return { root: changed(root, { slot, level: depth, value }) ?? [], depth };
}

/** What stands in all slots, in their order. */
export function* slotsOf<T>({ root, depth }: Trie<T>): Generator<T> {
  yield* valuesIn(root, depth);
}

/** Parts of a node, for those who go through a tree by themselves. Pure. */
export function partsOf<T>(node: TrieNode<T>, level: number): { branches: TrieNode<T>[]; values: T[] } {
  const parts = node.filter((part) => part !== undefined);
  return level > 0 ? { branches: parts as TrieNode<T>[], values: [] } : { branches: [], values: parts as T[] };
}

interface SlotChange<T> {
  readonly slot: number;
  readonly level: number;
  readonly value: T | undefined;
}

function changed<T>(node: TrieNode<T>, { slot, level, value }: SlotChange<T>): TrieNode<T> | undefined {
  const branch = branchOf(slot, level);
  const below = (node[branch] ?? []) as TrieNode<T>;
  const part = level > 0 ? changed(below, { slot, level: level - 1, value }) : value;
  const copy = [...node];
  copy[branch] = part;
  return part !== undefined || copy.some((other) => other !== undefined) ? copy : undefined;
}

function branchOf(slot: number, level: number): number {
  return Math.floor(slot / width ** level) % width;
}

function* valuesIn<T>(node: TrieNode<T>, level: number): Generator<T> {
  const { branches, values } = partsOf(node, level);
  yield* values;
  for (const branch of branches) yield* valuesIn(branch, level - 1);
}
