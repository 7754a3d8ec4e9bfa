/** The time of a job, by its own events: whoever reads them, and whenever, finds the same times. */
import type { EventMessage } from "@muster/client";

/** Counts from a job's first event, without the pauses in which nobody worked on it because it had been interrupted. */
export class JobClock {
  #originMs: number | null = null;
  #lastMs = 0;
  /** Time of the first event that is heard. */
  #beginsAtMs = 0;
  readonly #pauses: { readonly fromMs: number; readonly toMs: number }[] = [];
  readonly #workers = new Set<string>();

  /** The first event that is heard is not the job's first one: it was said at this time of the job. */
  beginAt(atMs: number): void {
    this.#beginsAtMs = atMs;
  }

  /** Takes the next event. @returns Its time; never before that of an earlier one, since the clocks of two hosts may differ. */
  take({ kind, body, sentAtMs }: EventMessage): number {
    this.#originMs ??= sentAtMs;
    const beganMs = this.#lastMs;
    // All trainers and samplers had left in order. Where somebody had not, the job was not interrupted but broken, and that is not left out.
    if (kind === "job.started" && this.#workers.size === 0 && sentAtMs > beganMs && beganMs > 0)
      this.#pauses.push({ fromMs: beganMs, toMs: sentAtMs });
    if (kind === "member.joined" && isWorker(body)) this.#workers.add(body.incarnation);
    if (kind === "member.left" || kind === "member.died") this.#workers.delete(body.incarnation);
    this.#lastMs = Math.max(beganMs, sentAtMs);
    return this.at(this.#lastMs);
  }

  /** The time of the job at a wall time. */
  at(wallMs: number): number {
    const origin = this.#originMs ?? wallMs;
    const paused = this.#pauses.reduce(
      (sum, { fromMs, toMs }) => sum + Math.max(0, Math.min(wallMs, toMs) - fromMs),
      0,
    );
    return Math.max(0, this.#beginsAtMs + wallMs - origin - paused);
  }

  /** True where the first event that was heard is the job's first one. */
  get isWhole(): boolean {
    return this.#beginsAtMs === 0;
  }

  /** Of it, since the first event that was heard. */
  get heardMs(): number {
    return this.nowMs - this.#beginsAtMs;
  }

  /** The time of the last event. */
  get nowMs(): number {
    return this.at(this.#lastMs);
  }
}

function isWorker({ role }: { readonly role: string }): boolean {
  return role === "policy" || role === "rollout";
}
