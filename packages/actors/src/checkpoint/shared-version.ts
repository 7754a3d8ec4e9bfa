/**
 * The bytes of the version of which an actor has written shards. They stay while others may not finish theirs, for then nobody else may have this version any
 * more; they go as soon as the set is sealed or given up, which the folder says.
 */
import type { Clock } from "@muster/base";
import type { KeptSections } from "./state-memory.ts";

/** How often the folder is looked at while bytes are kept. */
const lookEveryMs = 5_000;

const noLooks = (): void => {};

/** Keeps one version at most. */
export class SharedVersion {
  readonly #clock: Clock;
  #held: { readonly key: string; readonly kept: KeptSections } | null = null;
  /** Ends the looks at the folder. */
  #stop = noLooks;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** True while bytes are kept. */
  get isHeld(): boolean {
    return this.#held !== null;
  }

  /**
   * The bytes of a version: those that are kept, or what `take` brings, which takes their place. Nothing lets go of them until the caller is done with
   * `keepWhile` or `forget`.
   *
   * @throws What `take` throws.
   */
  async of(key: string, take: () => Promise<KeptSections>, signal: AbortSignal): Promise<KeptSections> {
    this.#stop();
    if (this.#held?.key === key) return this.#held.kept;
    this.forget();
    const kept = await take();
    // Nobody would let go of what came too late.
    if (signal.aborted) kept.release();
    signal.throwIfAborted();
    this.#held = { key, kept };
    return kept;
  }

  /** Keeps the bytes while their set is there; a look that fails says nothing. */
  keepWhile(isThere: () => Promise<boolean>): void {
    this.#stop();
    if (!this.#held) return;
    let isStopped = false;
    const look = async (): Promise<void> => {
      const isKept = await isThere().catch(() => true);
      if (isStopped) return;
      if (isKept) wait();
      else this.forget();
    };
    let cancel = (): void => {};
    const wait = (): void => {
      cancel = this.#clock.after(lookEveryMs, () => void look());
    };
    this.#stop = () => {
      isStopped = true;
      cancel();
    };
    wait();
  }

  /** Lets go of the bytes. */
  forget(): void {
    this.#stop();
    // What looks at the folder knows the bytes, too.
    this.#stop = noLooks;
    this.#held?.kept.release();
    this.#held = null;
  }
}
