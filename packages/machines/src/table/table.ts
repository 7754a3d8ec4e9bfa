/**
 * Tables of the state: records that are copied on write. A copy of ten thousand entries for each input is what made large jobs slow, so a large table is a
 * persistent tree behind the face of a record: it reads, spreads and turns into JSON as a record does, in the same order, and one entry of it is changed
 * without a copy of the others. A small one is a plain record. Which of the two a table is can not be seen but by the time that it takes.
 */
import { emptyTrie, slotOf, slotsOf, type Trie, withSlot } from "./trie.ts";

/** A record that nobody changes. */
export type Table<V> = Readonly<Record<string, V>>;

/** Entries from which on a table is a tree. */
const treeMin = 64;

type Entry<V> = readonly [key: string, value: V];

/** The tree of a large table. Keys that are whole numbers stand in their slots, others in the order in which they came, as in a record. */
export interface Tree<V> {
  readonly entries: Trie<Entry<V>>;
  readonly size: number;
  /** Slots of keys that are no numbers. Tables that came out of each other share it: no slot is given twice, so each finds its own entries. */
  readonly places: Places | null;
}

class Places {
  readonly #slots = new Map<string, number[]>();
  given = 0;

  give(key: string): number {
    const known = this.#slots.get(key);
    if (known) known.push(this.given);
    else this.#slots.set(key, [this.given]);
    return this.given++;
  }

  of(key: string): readonly number[] {
    return this.#slots.get(key) ?? none;
  }
}

const none: readonly number[] = [];

/** Under this key, which is none of a record, the face of a tree gives its tree. */
const treeKey: unique symbol = Symbol("tree");

/** The tree behind a table; `undefined` behind a plain record. */
export function treeOf<V>(table: Table<V> & { readonly [treeKey]?: Tree<V> }): Tree<V> | undefined {
  return table[treeKey];
}

/** The table with an entry added or changed. Pure. */
export function withEntry<V>(table: Table<V>, key: string, value: V): Table<V> {
  const tree = treeOf(table) ?? planted(table);
  if (!tree || !fits(tree, key)) return { ...table, [key]: value };
  const slot = slotOfKey(tree, key);
  if (slot !== undefined) return faceOf({ ...tree, entries: withSlot(tree.entries, slot, [key, value]) });
  if (isSparse(tree)) return withEntry({ ...table }, key, value);
  const fresh = tree.places?.give(key) ?? Number(key);
  return faceOf({ ...tree, entries: withSlot(tree.entries, fresh, [key, value]), size: tree.size + 1 });
}

/** The table without an entry. Pure. */
export function withoutEntry<V>(table: Table<V>, key: string): Table<V> {
  const tree = treeOf(table) ?? planted(table);
  if (!tree) {
    const { [key]: _, ...rest } = table;
    return rest;
  }
  const slot = slotOfKey(tree, key);
  if (slot === undefined) return table;
  return faceOf({ ...tree, entries: withSlot(tree.entries, slot, undefined), size: tree.size - 1 });
}

/** How many entries it has. Pure. */
export function sizeOf(table: Table<unknown>): number {
  return treeOf(table)?.size ?? Object.keys(table).length;
}

/** Its values in their order. Pure. */
export function valuesOf<V>(table: Table<V>): readonly V[] {
  return entriesOf(table).map(([, value]) => value);
}

/** Its entries in their order. Pure. */
export function entriesOf<V>(table: Table<V>): readonly Entry<V>[] {
  const tree = treeOf(table);
  return tree ? [...slotsOf(tree.entries)] : Object.entries(table);
}

function planted<V>(table: Table<V>): Tree<V> | undefined {
  const entries = Object.entries(table);
  if (entries.length < treeMin) return undefined;
  const [[first] = [""]] = entries;
  const places = isNumber(first) ? null : new Places();
  if (!entries.every(([key]) => fits({ places }, key))) return undefined;
  const trie = entries.reduce<Trie<Entry<V>>>(
    (next, entry) => withSlot(next, places?.give(entry[0]) ?? Number(entry[0]), entry),
    emptyTrie,
  );
  return { entries: trie, size: entries.length, places };
}

/** Most slots were given to what has gone: time to begin anew, so that nothing grows for ever. */
function isSparse({ places, size }: Tree<unknown>): boolean {
  return places !== null && places.given > 4 * size + 1_024;
}

/** A record puts whole numbers first, in their order: a tree has either these or names. */
function fits({ places }: Pick<Tree<unknown>, "places">, key: string): boolean {
  return places ? !/^(?:0|[1-9]\d{0,9})$/.test(key) : isNumber(key);
}

function isNumber(key: string): boolean {
  return /^(?:0|[1-9]\d{0,8})$/.test(key);
}

function slotOfKey<V>({ entries, places }: Tree<V>, key: string): number | undefined {
  const slots = places ? places.of(key) : isNumber(key) ? [Number(key)] : none;
  return slots.find((slot) => slotOf(entries, slot)?.[0] === key);
}

function entryOf<V>(tree: Tree<V>, key: string): Entry<V> | undefined {
  const slot = slotOfKey(tree, key);
  return slot === undefined ? undefined : slotOf(tree.entries, slot);
}

function faceOf<V>(tree: Tree<V>): Table<V> {
  return new Proxy<Record<string, V>>({}, new Face(tree));
}

/** What a record does, done by a tree. */
class Face<V> implements ProxyHandler<Record<string, V>> {
  readonly #tree: Tree<V>;

  constructor(tree: Tree<V>) {
    this.#tree = tree;
  }

  get(target: Record<string, V>, key: string | symbol): unknown {
    if (key === treeKey) return this.#tree;
    const entry = typeof key === "string" ? entryOf(this.#tree, key) : undefined;
    if (entry) return entry[1];
    return key === "toJSON" ? () => this.#plain() : Reflect.get(target, key);
  }

  has(target: Record<string, V>, key: string | symbol): boolean {
    return (typeof key === "string" && entryOf(this.#tree, key) !== undefined) || Reflect.has(target, key);
  }

  ownKeys(): string[] {
    return [...slotsOf(this.#tree.entries)].map(([key]) => key);
  }

  getOwnPropertyDescriptor(_: Record<string, V>, key: string | symbol): PropertyDescriptor | undefined {
    const entry = typeof key === "string" ? entryOf(this.#tree, key) : undefined;
    return entry && { value: entry[1], enumerable: true, configurable: true, writable: true };
  }

  set(): boolean {
    return false;
  }

  defineProperty(): boolean {
    return false;
  }

  deleteProperty(): boolean {
    return false;
  }

  #plain(): Record<string, V> {
    return Object.fromEntries(slotsOf(this.#tree.entries));
  }
}
