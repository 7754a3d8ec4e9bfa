/** The meters of one host, so that the loop reads without metric names. */
import type { Metrics } from "@muster/base";
import { runtimeMetrics } from "../metrics.ts";
import type { Mailbox } from "./mailbox.ts";

/** What the loop measures. */
export interface HostMeters {
  /** Counts a refused event. @returns False, so that a refusal is one line. */
  refused(reason: "mailbox_full" | "stopped"): false;
  depth(mailbox: Pick<Mailbox<unknown>, "depth">): void;
  event(kind: string): void;
  effect(effect: string): void;
  batch(durationMs: number): void;
  persisted(durationMs: number): void;
}

/** Creates or finds the meters of a host. */
export function createHostMeters(metrics: Metrics): HostMeters {
  const refusedTotal = metrics.counter(runtimeMetrics.mailboxRefused);
  const depth = metrics.gauge(runtimeMetrics.mailboxDepth);
  const events = metrics.counter(runtimeMetrics.hostEvents);
  const effects = metrics.counter(runtimeMetrics.hostEffects);
  const batch = metrics.histogram(runtimeMetrics.hostBatch);
  const persisted = metrics.histogram(runtimeMetrics.hostPersist);
  return {
    refused(reason) {
      refusedTotal.add(1, { reason });
      return false;
    },
    depth(mailbox) {
      depth.set(mailbox.depth("control"), { lane: "control" });
      depth.set(mailbox.depth("data"), { lane: "data" });
    },
    event: (kind) => events.add(1, { kind }),
    effect: (effect) => effects.add(1, { effect }),
    batch: (durationMs) => batch.observe(durationMs / 1000),
    persisted: (durationMs) => persisted.observe(durationMs / 1000),
  };
}
