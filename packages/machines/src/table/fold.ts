/**
 * What is known of a whole table, kept for every part of its tree: after a change only the parts on the way to one entry are looked at again. A fold belongs
 * to the values alone, so it is the same for equal tables however they came to be.
 */
import { type Table, treeOf } from "./table.ts";
import { partsOf, type TrieNode } from "./trie.ts";

/** How the values of a table are summed up. */
export interface Fold<V, A> {
  readonly empty: A;
  of(value: V): A;
  /** Of two parts that follow each other. Associative; `empty` changes nothing. */
  join(before: A, after: A): A;
}

/** A fold with what it has found of tables and of their parts. */
export interface KeptFold<V, A> {
  /** Of all values. */
  of(table: Table<V>): A;
  /** The values for which `isIt` is true, in their order; parts without any, as `mayHave` says, are not looked at. */
  select(table: Table<V>, mayHave: (sum: A) => boolean, isIt: (value: V) => boolean): V[];
}

/** Keeps what a fold finds. */
export function keptFold<V, A>(fold: Fold<V, A>): KeptFold<V, A> {
  const known = new WeakMap<object, A>();

  const keep = (of: object, found: () => A): A => {
    const earlier = known.get(of);
    if (earlier !== undefined) return earlier;
    const fresh = found();
    known.set(of, fresh);
    return fresh;
  };
  const sum = (values: readonly V[]): A => values.reduce((all, value) => fold.join(all, fold.of(value)), fold.empty);

  type Entry = readonly [string, V];
  type Node = TrieNode<Entry>;
  const ofNode = (node: Node, level: number): A =>
    keep(node, () => {
      let all = fold.empty;
      for (const part of node) {
        if (part === undefined) continue;
        all = fold.join(all, level > 0 ? ofNode(part as Node, level - 1) : fold.of((part as Entry)[1]));
      }
      return all;
    });

  const ofTable = (table: Table<V>): A => {
    const tree = treeOf(table);
    return tree ? ofNode(tree.entries.root, tree.entries.depth) : keep(table, () => sum(Object.values(table)));
  };

  return {
    of: ofTable,
    select(table, mayHave, isIt) {
      const tree = treeOf(table);
      if (!tree) return mayHave(ofTable(table)) ? Object.values(table).filter(isIt) : [];
      const found: V[] = [];
      const search = (node: Node, level: number): void => {
        if (!mayHave(ofNode(node, level))) return;
        const { branches, values } = partsOf(node, level);
        for (const [, value] of values) if (isIt(value)) found.push(value);
        for (const branch of branches) search(branch, level - 1);
      };
      search(tree.entries.root, tree.entries.depth);
      return found;
    },
  };
}
