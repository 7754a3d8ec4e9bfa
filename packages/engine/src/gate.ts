/** A gate that work waits at while it is shut. Each wait ends when the gate opens or its signal is aborted. */
export class Gate {
  readonly #waiting = new Set<() => void>();
  #shut = false;

  get isShut(): boolean {
    return this.#shut;
  }

  shut(): void {
    this.#shut = true;
  }

  open(): void {
    this.#shut = false;
    for (const go of this.#waiting) go();
    this.#waiting.clear();
  }

  /** @throws The signal's reason. */
  async passed(signal: AbortSignal): Promise<void> {
    while (this.#shut) {
      signal.throwIfAborted();
      await new Promise<void>((resolve) => {
        const go = (): void => {
          signal.removeEventListener("abort", go);
          this.#waiting.delete(go);
          resolve();
        };
        this.#waiting.add(go);
        signal.addEventListener("abort", go);
      });
    }
    signal.throwIfAborted();
  }
}
