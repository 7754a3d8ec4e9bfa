/** A bound on what runs at the same time, in the order of arrival. */
export class Places {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs once a place is free. @throws The signal's reason when it is aborted before; what `run` throws */
  async use<T>(run: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    await this.#take(signal);
    try {
      return await run();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }

  #take(signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(signal?.reason);
      };
      this.#waiting.push(enter);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }
}
