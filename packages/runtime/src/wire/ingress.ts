/**
 * The way in: delivery → admission → duplicates → mailbox → acknowledge once the effects are executed. Whatever can never be read is
 * ended and counted, whatever is overtaken is acknowledged and counted, whatever finds no room comes again later.
 */
import type { Clock, Logger, Metrics } from "@muster/base";
import type { AnyMessage, RefusalReason } from "@muster/protocol";
import type { Delivery } from "@muster/transport";
import { runtimeMetrics } from "../metrics.ts";
import { createAdmission, type Verdict } from "./admission.ts";
import { createDedup } from "./dedup.ts";

/** Bytes that are refused for good: where they came, and why, in a word and in a sentence. */
export interface Refusal {
  readonly subject: string;
  readonly data: Uint8Array;
  /** Sequence in the stream that stored them; absent when they were not stored. */
  readonly seq?: number;
  readonly reason: RefusalReason;
  readonly detail: string;
}

type Came = Pick<Refusal, "subject" | "data" | "seq">;

/** What an ingress is made from. */
export interface IngressOptions {
  readonly job: string;
  /** Id of this actor. */
  readonly self: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /**
   * Gives a message to the host. `settle` belongs to the entry's settling; `redeliveries` is how often the message came before.
   *
   * @returns False when there is no room.
   */
  readonly accept: (message: AnyMessage, settle: () => void, redeliveries: number) => boolean;
  /** False for messages that this actor has no use for, e.g. an operator's command from a replica. Default all. */
  readonly expects?: (message: AnyMessage) => boolean;
  /** True for messages that the machine answers again when they come again; what else was done before is acknowledged. Default none. */
  readonly isAnsweredAgain?: (message: AnyMessage) => boolean;
  /** Hears of everything that is refused for good. */
  readonly onRefused?: (refusal: Refusal) => void;
  /** How long a delivery without room waits. Default 500 ms. */
  readonly retryMs?: number;
}

/** The way in of one actor. */
export interface Ingress {
  /** Takes a delivery of a durable consumer; give it to `Transport.consume`. */
  readonly handle: (delivery: Delivery) => void;
  /** Takes what may be lost, such as heartbeats; give it to `Transport.subscribe`. */
  readonly handleCore: (subject: string, data: Uint8Array) => void;
  /** Highest term that a command carried; 0 before the first. */
  term(): number;
}

const logEveryMs = 1_000;
const prefixBytes = 32;

/** Opens the way in of one actor. */
export function createIngress(options: IngressOptions): Ingress {
  const admission = createAdmission(options);
  const dedup = createDedup({ messagesMax: 4_096, sendersMax: 1_024 });
  const stale = options.metrics.counter(runtimeMetrics.mailboxStale);
  const refuse = createRefusalLog(options);
  const retryMs = options.retryMs ?? 500;

  const admit = (came: Came): Exclude<Verdict, { type: "refused" }> | null => {
    const verdict = admission.judge(came.subject, came.data, came.seq);
    if (verdict.type !== "refused") return verdict;
    refuse(verdict, came);
    const { subject, data, seq } = came;
    const { reason, detail } = verdict;
    options.onRefused?.({ subject, data, ...(seq === undefined ? {} : { seq }), reason, detail });
    return null;
  };

  /** What to tell the broker now; `null` when the host will settle it. */
  const answerTo = (delivery: Delivery): "ack" | "nak" | "term" | null => {
    const verdict = admit(delivery);
    if (!verdict) return "term";
    if (verdict.type === "stale") return overtaken("term");
    const seen = dedup.look(verdict.message);
    if (seen === "pending") return "nak";
    if (seen === "done" && !options.isAnsweredAgain?.(verdict.message)) return overtaken("duplicate");
    const taken = dedup.take(verdict.message);
    const settle = (): void => {
      taken.done();
      delivery.ack();
    };
    if (options.accept(verdict.message, settle, delivery.redeliveries)) return null;
    taken.forget();
    return "nak";
  };

  const overtaken = (reason: "term" | "duplicate"): "ack" => {
    stale.add(1, { reason });
    return "ack";
  };

  const handle = (delivery: Delivery): void => {
    const answer = answerTo(delivery);
    if (answer === "ack") delivery.ack();
    else if (answer === "nak") delivery.nak(retryMs);
    else if (answer === "term") delivery.term();
  };

  const handleCore = (subject: string, data: Uint8Array): void => {
    const verdict = admit({ subject, data });
    if (verdict?.type === "message") options.accept(verdict.message, () => {}, 0);
  };

  return { handle, handleCore, term: () => admission.term() };
}

/** Counts every refusal and logs at most one a second, with the first bytes only: the rest may be anything. */
function createRefusalLog({ clock, logger, metrics }: IngressOptions) {
  const refusals = metrics.counter(runtimeMetrics.mailboxRefused);
  let quietUntilMs = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  return (
    { reason, detail }: { readonly reason: RefusalReason; readonly detail: string },
    { subject, data }: { readonly subject: string; readonly data: Uint8Array },
  ): void => {
    refusals.add(1, { reason });
    if (clock.now() < quietUntilMs) {
      unlogged += 1;
      return;
    }
    const prefix = Buffer.from(data.subarray(0, prefixBytes)).toString("hex");
    const fields = { subject, reason, detail: detail.slice(0, 200), bytes: data.length, prefix, unlogged };
    logger.warn(fields, "message refused");
    quietUntilMs = clock.now() + logEveryMs;
    unlogged = 0;
  };
}
