/** The meters of one outbox. */
import type { Metrics } from "@muster/base";
import { runtimeMetrics } from "../metrics.ts";

/** What an outbox measures. */
export interface OutboxMeters {
  depth(messages: number): void;
  stored(durationMs: number): void;
  retried(): void;
  /** A full stream refused a message, which waits. */
  heldBack(stream: string): void;
  shed(kind: string): void;
}

/** Creates or finds the meters of an outbox. */
export function createOutboxMeters(metrics: Metrics): OutboxMeters {
  const depth = metrics.gauge(runtimeMetrics.outboxDepth);
  const latency = metrics.histogram(runtimeMetrics.outboxLatency);
  const retries = metrics.counter(runtimeMetrics.outboxRetries);
  const heldBack = metrics.counter(runtimeMetrics.outboxHeldBack);
  const shed = metrics.counter(runtimeMetrics.outboxShed);
  return {
    depth: (messages) => depth.set(messages),
    stored: (durationMs) => latency.observe(durationMs / 1000),
    retried: () => retries.add(1),
    heldBack: (stream) => heldBack.add(1, { stream }),
    shed: (kind) => shed.add(1, { kind }),
  };
}
