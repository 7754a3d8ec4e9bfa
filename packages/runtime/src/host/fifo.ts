/** A queue whose `shift` costs the same however long it is: the front moves, and the array is cut when half of it is behind. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #front = 0;

  get size(): number {
    return this.#items.length - this.#front;
  }

  /** What waits, in order. */
  items(): readonly T[] {
    return this.#items.slice(this.#front) as T[];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  peek(): T | undefined {
    return this.#items[this.#front];
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#front];
    this.#items[this.#front++] = undefined;
    if (this.#front > 64 && this.#front * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#front);
      this.#front = 0;
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#front = 0;
  }
}
