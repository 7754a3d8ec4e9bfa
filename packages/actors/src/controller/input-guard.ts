/**
 * Inputs that the controller can not take in: too large for a record of the journal, or such that the machine throws over them. Each would
 * come again and end every successor, too; so it is put aside, named and counted, and the job goes on without it. What it said counts as
 * never said: a lease, an order or a vote that it would have settled runs into its deadline.
 */
import { type Logger, type Metrics, messageOf } from "@muster/base";
import type { ControllerEvent } from "@muster/machines/controller";
import { type AnyMessage, pack } from "@muster/protocol";

/** How it is said. */
export interface InputGuardOptions {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Tells the operator; not more often than {@link toldMax} times in a term. */
  readonly alarm: (detail: string) => void;
  /** Most bytes of inputs in one record. An input that stands alone may take a quarter more. */
  readonly recordBytes: number;
}

/** What stands between the reports and the machine. */
export interface InputGuard {
  /** Bytes that an input adds to a record. */
  weigh(event: ControllerEvent): number;
  /** True for an input that no record holds, which is put aside with this. */
  isTooLarge(message: AnyMessage, event: ControllerEvent): boolean;
  /**
   * Asked when the machine throws over a report. Broken state would show in the same way, so that the first controllers end over it and
   * their successors begin from the journal; one that finds the report still unbearable puts it aside.
   *
   * @param redeliveries - Deliveries before, in all terms.
   * @returns True when it is put aside.
   */
  isUnbearable(message: AnyMessage, redeliveries: number, error: unknown): boolean;
}

/** Deliveries of a report over which the machine throws until it is put aside. */
const triesMax = 3;
const toldMax = 32;
const reasonMax = 300;

/** Watches over the inputs of one term. */
export function inputGuard({ logger, metrics, alarm, recordBytes }: InputGuardOptions): InputGuard {
  const total = metrics.counter({
    name: "muster_controller_inputs_aside_total",
    help: "Reports that were put aside: too large for the journal, or such that the controller throws over them.",
    labels: ["kind", "reason"],
  });
  const inputMax = Math.floor(recordBytes * 1.25);
  const weights = new WeakMap<ControllerEvent, number>();
  let told = 0;

  const weigh = (event: ControllerEvent): number => {
    const bytes = weights.get(event) ?? pack(event).byteLength;
    // no mutant: it saves that an input is packed each time that somebody asks for its weight
    weights.set(event, bytes);
    return bytes;
  };

  const putAside = (message: AnyMessage, reason: "too_large" | "unbearable", why: string): true => {
    const { kind, from, role, incarnation, seq } = message;
    total.add(1, { kind, reason });
    if (++told > toldMax) return true;
    const last = told === toldMax ? "; later ones are only counted" : "";
    const detail = `${kind} of ${role} ${from} is put aside and counts as never said: ${why}${last}`;
    logger.error({ kind, from, incarnation, seq, reason }, detail);
    alarm(detail);
    return true;
  };

  return {
    weigh,
    isTooLarge(message, event) {
      const bytes = weigh(event);
      if (bytes <= inputMax) return false;
      return putAside(message, "too_large", `it has ${bytes} bytes, and a record of the journal takes ${inputMax}`);
    },
    isUnbearable(message, redeliveries, error) {
      if (redeliveries + 1 < triesMax) return false;
      const why = messageOf(error).slice(0, reasonMax);
      return putAside(message, "unbearable", `the controller threw over it ${redeliveries + 1} times (${why})`);
    },
  };
}
