/** Arrivals at barriers. All of a client share one reader of the events: a reader for each would cost more than the barrier. */
import { type AnyMessage, type Body, type Enveloper, encodeMessage, subjectsOf } from "@muster/protocol";
import { barrierAnswers, type Subscription, type Transport } from "@muster/transport";
import { whenAborted } from "./ask.ts";
import { errors } from "./errors.ts";
import { type EventMessage, follow, hear } from "./follow.ts";

type Arrival = Body<"barrier.arrived">;

/** How a barrier ended, or why an arrival was refused. */
export type BarrierAnswer = Body<"barrier.ended"> | Body<"barrier.refused">;

interface Waiter {
  take(event: EventMessage): void;
}

/** The arrivals of one client. */
export class Arrivals {
  readonly #transport: Transport;
  readonly #enveloper: Enveloper;
  readonly #waiting = new Set<Waiter>();
  readonly #isScript: boolean;
  #reader: Promise<Subscription> | null = null;

  /** @param isScript - The connection is one of a script, which reads no stream. */
  constructor(transport: Transport, enveloper: Enveloper, isScript: boolean) {
    this.#transport = transport;
    this.#enveloper = enveloper;
    this.#isScript = isScript;
  }

  /** Arrives, and waits for the answer; `null` when none came in time. @throws MUSTER_ERR_REQUEST_REFUSED; the reason of `signal` */
  async arrive(
    arrival: Arrival,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<BarrierAnswer | null> {
    await this.#read();
    const message = this.#enveloper.stamp("barrier.arrived", arrival) as AnyMessage;
    const sender = `${message.from} ${message.incarnation}`;
    const timeout = AbortSignal.timeout(Math.max(1, Math.min(timeoutMs, timeoutMaxMs)));
    let waiter: Waiter | null = null;
    const answered = new Promise<BarrierAnswer>((resolve, reject) => {
      waiter = {
        take(event) {
          const answer = answerOf(event, arrival, sender);
          if (answer !== null) resolve(answer);
          const { kind, body } = event;
          if (kind === "message.refused" && body.id === message.id)
            reject(errors.RequestRefused({ kind: message.kind, reason: body.detail }));
        },
      };
      this.#waiting.add(waiter);
    });
    try {
      const subject = subjectsOf(this.#transport.job).report("operator", message.from, message.kind);
      const sent = this.#transport.publish(subject, encodeMessage(message), { msgId: message.id });
      const late = whenAborted(signal ? AbortSignal.any([timeout, signal]) : timeout);
      // The answer may come before the broker's word that the arrival is stored.
      return await Promise.race([answered, sent.then(() => answered), late]);
    } catch (error) {
      if (timeout.aborted && !signal?.aborted) return null;
      throw error;
    } finally {
      if (waiter) this.#waiting.delete(waiter);
    }
  }

  #read(): Promise<Subscription> {
    const take = (event: EventMessage): void => {
      for (const waiter of this.#waiting) waiter.take(event);
    };
    this.#reader ??= (
      this.#isScript ? hear(this.#transport, barrierAnswers, take) : follow(this.#transport, { fromSeq: "new", take })
    ).catch((error: unknown) => {
      this.#reader = null;
      throw error;
    });
    return this.#reader;
  }

  /** Ends the reader; whoever waits then waits in vain. */
  async close(): Promise<void> {
    await this.#reader?.then((reader) => reader.close());
  }
}

/** Longest delay of a timer. */
const timeoutMaxMs = 2 ** 31 - 1;

/** What an event says of an arrival; `null` when nothing. Pure. */
function answerOf({ kind, body }: EventMessage, at: Arrival, sender: string): BarrierAnswer | null {
  const isOurs = (key: Pick<BarrierAnswer, "epoch" | "iteration" | "phase">): boolean =>
    key.epoch === at.epoch && key.iteration === at.iteration && key.phase === at.phase;
  // Whoever is not among those that go on has come too late, and is told that for itself.
  if (kind === "barrier.ended")
    return isOurs(body) && (body.outcome === "aborted" || body.arrived.includes(at.rank)) ? body : null;
  if (kind !== "barrier.refused" || !isOurs(body) || body.rank !== at.rank) return null;
  // Somebody else who speaks for the same rank may be refused, and this one not; nobody's name stands for all of the rank.
  return body.by === sender || body.by === "" ? body : null;
}
