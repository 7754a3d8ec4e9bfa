/** Where checkers put what they find, and what happened just before. */
import { RunningHash } from "./digest.ts";

/** An invariant that did not hold. Names are those of the README: S1 … S38 for safety, L1 … L9 for liveness. */
export interface Violation {
  readonly invariant: string;
  readonly detail: string;
  readonly atMs: number;
}

/** Where a checker says what does not hold. */
export interface Verdicts {
  /** Says that an invariant does not hold, unless `holds`. */
  require(holds: boolean, invariant: string, detail: () => string): void;
}

const linesMax = 120;

/** The log and the verdict of one run. */
export class Judge implements Verdicts {
  readonly violations: Violation[] = [];
  readonly #world: { readonly nowMs: number };
  readonly #unjudged: readonly string[];
  readonly #lines: string[] = [];
  readonly #hash = new RunningHash();

  /** `unjudged` are invariants that can not be judged in this run. */
  constructor(world: { readonly nowMs: number }, unjudged: readonly string[] = []) {
    this.#world = world;
    this.#unjudged = unjudged;
  }

  /** Notes what happened; it belongs to the hash of the run. */
  note(line: string): void {
    this.#hash.number(this.#world.nowMs);
    this.#hash.text(line);
    this.#lines.push(`${(this.#world.nowMs / 1000).toFixed(3).padStart(9)} ${line}`);
    if (this.#lines.length > 2 * linesMax) this.#lines.splice(0, linesMax);
  }

  /** Adds bytes to the hash of the run. */
  hash(bytes: Uint8Array): void {
    this.#hash.bytes(bytes);
  }

  /** Says that an invariant does not hold, unless `holds`. */
  require(holds: boolean, invariant: string, detail: () => string): void {
    if (holds || this.violations.length >= 16 || this.#unjudged.includes(invariant)) return;
    const violation = { invariant, detail: detail(), atMs: this.#world.nowMs };
    this.violations.push(violation);
    this.note(`VIOLATION of ${invariant}: ${violation.detail}`);
  }

  /** The last lines. */
  lines(): readonly string[] {
    return this.#lines.slice(-linesMax);
  }

  /** Hash of everything noted. */
  digest(): string {
    return this.#hash.digest();
  }
}
