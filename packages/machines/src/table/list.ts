/**
 * Lists from the front of which a few elements are taken again and again. What is left of a long one is not copied: it is the same list, seen from further
 * on, and reads, spreads and turns into JSON as an array does.
 */

/** Elements from which on a list is not copied. */
const viewMin = 256;

interface View<T> {
  readonly base: readonly T[];
  readonly from: number;
}

/** Under this key, which is none of an array, what is seen from further on gives its view. */
const viewKey: unique symbol = Symbol("view");

/** The first so many elements. Pure. */
export function firstOf<T>(list: readonly T[], count: number): readonly T[] {
  const { base, from } = viewOf(list);
  return base.slice(from, from + count);
}

/** The list without the first so many elements. Pure. */
export function restOf<T>(list: readonly T[], count: number): readonly T[] {
  if (list.length - count < viewMin) return list.slice(count);
  const { base, from } = viewOf(list);
  return new Proxy<T[]>([], new Face({ base, from: from + count }));
}

function viewOf<T>(list: readonly T[] & { readonly [viewKey]?: View<T> }): View<T> {
  return list[viewKey] ?? { base: list, from: 0 };
}

/** What an array does, done by a part of another one. */
class Face<T> implements ProxyHandler<T[]> {
  readonly #view: View<T>;
  readonly #length: number;

  constructor(view: View<T>) {
    this.#view = view;
    this.#length = view.base.length - view.from;
  }

  get(target: T[], key: string | symbol): unknown {
    if (key === "length") return this.#length;
    if (key === viewKey) return this.#view;
    return this.#has(key) ? this.#view.base[this.#view.from + Number(key)] : Reflect.get(target, key);
  }

  has(target: T[], key: string | symbol): boolean {
    return this.#has(key) || Reflect.has(target, key);
  }

  ownKeys(): string[] {
    return [...Array.from({ length: this.#length }, (_, i) => `${i}`), "length"];
  }

  getOwnPropertyDescriptor(target: T[], key: string | symbol): PropertyDescriptor | undefined {
    if (key === "length") return { value: this.#length, writable: true, enumerable: false, configurable: false };
    if (!this.#has(key)) return Reflect.getOwnPropertyDescriptor(target, key);
    return { value: this.get(target, key), writable: true, enumerable: true, configurable: true };
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

  #has(key: string | symbol): boolean {
    return typeof key === "string" && /^(?:0|[1-9]\d{0,8})$/.test(key) && Number(key) < this.#length;
  }
}
