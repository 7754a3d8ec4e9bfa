/**
 * The brake on evictions: when many members fall silent together, or the watcher itself was away, it is more likely that the view is bad
 * than that all of them died (reliability 4.2). It lets go a full time-out after the last such sign, so that a real mass death is found too.
 */

const suspectsMin = 2;
const suspectsShare = 0.2;

/** Whether anybody may be evicted now. */
export class Brake {
  #untilMs = 0;
  #fresh: { readonly id: string; readonly atMs: number }[] = [];

  /** The view was bad until now. */
  pull(nowMs: number, deadAfterMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, nowMs + deadAfterMs);
    this.#fresh = [];
  }

  /** True while nobody may be evicted for silence. */
  isOn(nowMs: number): boolean {
    return nowMs < this.#untilMs;
  }

  /**
   * A member became a suspect.
   *
   * @returns Why the brake is pulled, when this suspicion pulled it; else `null`.
   */
  suspected(id: string, moment: { nowMs: number; deadAfterMs: number; members: number }): string | null {
    const { nowMs, deadAfterMs, members } = moment;
    this.#fresh = this.#fresh.filter((one) => one.id !== id && nowMs - one.atMs < deadAfterMs);
    this.#fresh.push({ id, atMs: nowMs });
    if (this.#fresh.length <= Math.max(suspectsMin, Math.ceil(members * suspectsShare))) return null;
    const wasOn = this.isOn(nowMs);
    this.#untilMs = Math.max(this.#untilMs, nowMs + deadAfterMs);
    if (wasOn) return null;
    return `${this.#fresh.length} of ${members} members fell silent within ${deadAfterMs} ms; no member is evicted for ${deadAfterMs} ms`;
  }

  /** A member is heard again, or gone. */
  cleared(id: string): void {
    this.#fresh = this.#fresh.filter((one) => one.id !== id);
  }
}
