/** The coordinator at work: inputs become state, what changed is kept before anybody hears of it, and those who wait are woken. */
import type { Clock } from "@muster/base";
import type { Journal } from "./journal/file-journal.ts";
import { type Outcome, refuse, type Topology, type TopologyRules } from "./topology/state.ts";
import { type Answers, afterAbsence, type Input, overdue, step } from "./topology/step.ts";

/** What a coordinator is made from. */
export interface CoordinatorOptions {
  readonly clock: Clock;
  readonly rules: TopologyRules;
  readonly journal: Journal;
  /** State of the journal. */
  readonly state: Topology;
  /** Hears of ids that died. */
  readonly onDeaths?: (ids: readonly string[]) => void;
  /** Hears once when the journal can not be written any more; nothing is answered from then on. */
  readonly onFailure?: (error: unknown) => void;
}

/** Most calls that wait for something at one time. */
const waitersMax = 8_192;
/** How often it is looked whether something has run out. */
const tickMs = 250;
/** A tick that is later than this comes after a standstill of the process. */
const stallMs = 1_000;

interface Waiter {
  readonly look: () => void;
  readonly end: () => void;
}

/** One coordinator. */
export class Coordinator {
  readonly rules: TopologyRules;
  readonly #options: CoordinatorOptions;
  readonly #waiters = new Set<Waiter>();
  #state: Topology;
  #stopTicks = (): void => {};
  #tickDueMs = Number.POSITIVE_INFINITY;
  #hasFailed = false;
  #isClosing = false;

  constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.rules = options.rules;
    this.#state = afterAbsence(options.state, options.clock.now());
  }

  /** Keeps the state as it was found, and begins to look at the clock. */
  async start(): Promise<void> {
    await this.#options.journal.compact(this.#state);
    this.#tick();
  }

  /** Looks once and again. */
  #tick(): void {
    const { clock } = this.#options;
    this.#tickDueMs = clock.now() + tickMs;
    this.#stopTicks = clock.after(tickMs, () => {
      // A failure of the journal is told by onFailure.
      this.expire().catch(() => {});
      this.#tick();
    });
  }

  /**
   * A tick that is much too late says that the process stood still: nobody was heard meanwhile, so nobody is blamed for it. Comes before
   * any input, for after a standstill calls that wait can come before the tick.
   */
  #forgiveStall(): void {
    const now = this.#options.clock.now();
    const lateMs = now - this.#tickDueMs;
    if (lateMs <= stallMs) return;
    this.#tickDueMs = now + tickMs;
    // A failure of the journal is told by onFailure.
    this.#enter<"stall">({ kind: "stall", lateMs }).catch(() => {});
  }

  /** Enters an input. Resolves when what it changed is kept. */
  submit<K extends Input["kind"]>(input: Extract<Input, { kind: K }>): Promise<Outcome<Answers[K]>> {
    this.#forgiveStall();
    return this.#enter(input);
  }

  async #enter<K extends Input["kind"]>(input: Extract<Input, { kind: K }>): Promise<Outcome<Answers[K]>> {
    const { clock, journal } = this.#options;
    const now = clock.now();
    const before = this.#state;
    const outcome = step(before, input, { now, rules: this.rules });
    if ("refused" in outcome) return outcome;
    this.#state = outcome.state;
    // Signs of life that change nothing else are not kept: after an absence every wait begins anew anyway.
    if (input.kind !== "heartbeat" || outcome.state.epoch !== before.epoch) {
      journal.append(input, now);
      await this.#kept();
      this.#wake();
    }
    return outcome as Outcome<Answers[K]>;
  }

  /** Looks at a state that is kept. */
  async read<T>(look: (state: Topology, now: number) => T): Promise<T> {
    await this.#kept();
    return look(this.#state, this.#options.clock.now());
  }

  /**
   * Looks until there is something to see, for `waitMs` at most; then what there is counts.
   *
   * @param isEnough - Whether an answer is worth waking up for.
   */
  async wait<T>(
    look: (state: Topology) => Outcome<T>,
    isEnough: (answer: T) => boolean,
    { waitMs, signal }: { readonly waitMs: number; readonly signal: AbortSignal },
  ): Promise<Outcome<T>> {
    const first = await this.read(look);
    if ("refused" in first || isEnough(first.answer) || waitMs <= 0 || signal.aborted || this.#isClosing) return first;
    if (this.#waiters.size >= waitersMax)
      return refuse(
        503,
        `wait_timeout_s: ${waitersMax} calls wait already; ask again without waiting`,
        "wait_timeout_s",
      );
    return new Promise((resolve) => {
      const end = (): void => {
        this.#waiters.delete(waiter);
        cancel();
        signal.removeEventListener("abort", end);
        resolve(this.read(look));
      };
      const waiter: Waiter = {
        end,
        look: () => {
          const seen = look(this.#state);
          if ("refused" in seen || isEnough(seen.answer)) end();
        },
      };
      const cancel = this.#options.clock.after(waitMs, end);
      this.#waiters.add(waiter);
      signal.addEventListener("abort", end, { once: true });
    });
  }

  /** The state as it is, kept or not: for figures, not for answers. */
  peek(): Topology {
    return this.#state;
  }

  /** Calls that wait now. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /** Ends what has run out. */
  async expire(): Promise<void> {
    this.#forgiveStall();
    const input = overdue(this.#state, { now: this.#options.clock.now(), rules: this.rules });
    if (input === null || this.#hasFailed) return;
    await this.submit(input);
    if (input.nodes.length > 0) this.#options.onDeaths?.(input.nodes);
  }

  /** Answers those who wait with what there is, and looks at the clock no more. */
  dismiss(): void {
    this.#stopTicks();
    this.#isClosing = true;
    for (const waiter of [...this.#waiters]) waiter.end();
  }

  /** Stops looking at the clock, answers those who wait, and closes the journal. */
  async close(): Promise<void> {
    this.dismiss();
    await this.#options.journal.close();
  }

  async #kept(): Promise<void> {
    try {
      const { journal } = this.#options;
      await (journal.isLong ? journal.compact(this.#state) : journal.flush());
    } catch (error) {
      if (!this.#hasFailed) this.#options.onFailure?.(error);
      this.#hasFailed = true;
      throw error;
    }
  }

  #wake(): void {
    for (const waiter of [...this.#waiters]) waiter.look();
  }
}
