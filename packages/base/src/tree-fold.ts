/**
 * Adds things up along a binary tree that follows from their number alone: the left half of a node has the largest power of two of them that leaves
 * some for the right half. Of two things `a + b`, of three `(a + b) + c`, of six `((a + b) + (c + d)) + (e + f)`. So whoever has all things of a node may
 * hand on its sum in their place, and nothing changes in the result. The same tree as `treeSum` of the data plane.
 */
export class TreeFold<T> {
  readonly #add: (left: T, right: T) => T;
  /** Sums of the nodes that are complete, the largest first: never two of one size. */
  readonly #nodes: { readonly size: number; readonly sum: T }[] = [];

  /** @param add - May change `left` and return it. */
  constructor(add: (left: T, right: T) => T) {
    this.#add = add;
  }

  /** Takes the next thing. At most one sum for each power of two is kept. */
  push(thing: T): void {
    let node = { size: 1, sum: thing };
    while (this.#nodes.at(-1)?.size === node.size) node = this.#joined(node);
    this.#nodes.push(node);
  }

  /** The sum of all things; undefined of none. Nothing may be pushed afterwards. */
  sum(): T | undefined {
    let node = this.#nodes.pop();
    while (node && this.#nodes.length > 0) node = this.#joined(node);
    return node?.sum;
  }

  #joined(right: { readonly size: number; readonly sum: T }): { readonly size: number; readonly sum: T } {
    const left = this.#nodes.pop();
    return left ? { size: left.size + right.size, sum: this.#add(left.sum, right.sum) } : right;
  }
}
