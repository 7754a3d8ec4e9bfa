/** One job as the page's readers see it: the fold of its events, its newest status, and who wants to hear of both. */
import { type Clock, every, messageOf } from "@muster/base";
import type { JobClient, SeenStatus } from "@muster/client";
import { type Fact, factOf, type Say } from "../view/facts.ts";
import { emptyFold, fold, type JobFold } from "../view/fold.ts";

/** Hears what is new. */
export interface Listener {
  readonly fact: (fact: Fact) => void;
  readonly status: (status: SeenStatus | null) => void;
}

/** The controller writes its status as often. */
const statusEveryMs = 1_000;

/** Follows a job from the first event that is still stored, until it is closed. */
export class JobWatch {
  #known: JobFold = emptyFold;
  #status: SeenStatus | null = null;
  /** When the status was read, by this clock: its age grows while the broker is away. */
  #readAtMs = 0;
  readonly #listeners = new Set<Listener>();
  readonly #ends: (() => unknown)[] = [];
  #isReading = false;
  #isClosed = false;

  readonly client: JobClient;
  readonly #clock: Clock;

  private constructor(client: JobClient, clock: Clock) {
    this.client = client;
    this.#clock = clock;
  }

  static async open(
    client: JobClient,
    { say, clock, onFault }: { readonly say: Say; readonly clock: Clock; readonly onFault: (reason: string) => void },
  ): Promise<JobWatch> {
    const watch = new JobWatch(client, clock);
    const events = await client.follow({
      fromSeq: 1,
      take: (event, seq) => watch.#take(factOf(event, seq, say)),
      unreadable: (seq, reason) => onFault(`event ${seq} can not be read: ${reason}`),
    });
    watch.#ends.push(() => events.close());
    await watch.#read(onFault);
    watch.#ends.push(every(clock, statusEveryMs, () => void watch.#read(onFault)));
    return watch;
  }

  get known(): JobFold {
    return this.#known;
  }

  /** The newest status, with its age by now. */
  get status(): SeenStatus | null {
    if (this.#status === null) return null;
    return { ...this.#status, ageMs: this.#status.ageMs + Math.max(0, this.#clock.now() - this.#readAtMs) };
  }

  /** @returns Stops the listener. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const end of this.#ends.splice(0)) await end();
    this.#listeners.clear();
  }

  #take(fact: Fact): void {
    this.#known = fold(this.#known, fact);
    for (const listener of this.#listeners) listener.fact(fact);
  }

  async #read(onFault: (reason: string) => void): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      this.#status = await this.client.status();
      this.#readAtMs = this.#clock.now();
    } catch (error) {
      // The broker is away: the last status grows old, and the page says so.
      if (!this.#isClosed) onFault(messageOf(error));
    } finally {
      this.#isReading = false;
    }
    for (const listener of this.#listeners) listener.status(this.status);
  }
}
