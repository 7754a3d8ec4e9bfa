/**
 * Who ended a process that several calls were in. Each is tried again, in smaller and smaller company, until one ends a process that it had for itself:
 * that one is to blame, and no other.
 */

/** Parts that are tried one after the other. `at` is the call whose code ran last, as far as is known; `hasLeft` tells that it waits for nothing any more. Pure. */
export function partsOf(
  calls: readonly number[],
  { at, hasLeft }: { readonly at: number; readonly hasLeft: boolean },
): readonly (readonly number[])[] {
  if (calls.length <= 1 || hasLeft) return calls.length === 0 ? [] : [calls];
  if (calls.includes(at)) return [[at], calls.filter((call) => call !== at)];
  const half = Math.ceil(calls.length / 2);
  return [calls.slice(0, half), calls.slice(half)];
}

/** Calls that are tried together, and nobody beside them. */
export class Part {
  readonly #entering: (() => void)[] = [];
  /** Calls that are in it. */
  size = 0;
  /** It has a process in which nobody was before. */
  isFresh = false;

  /** Waits until it is its turn, or until the signal is aborted. @throws the reason of the signal */
  async enter(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const enter = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        this.#entering.splice(this.#entering.indexOf(enter), 1);
        reject(signal.reason);
      };
      this.#entering.push(enter);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  get isWanted(): boolean {
    return this.#entering.length > 0;
  }

  /** Lets in all that wait. */
  begin(isFresh: boolean): void {
    this.isFresh = isFresh;
    const entering = this.#entering.splice(0);
    this.size = entering.length;
    for (const enter of entering) enter();
  }
}
