/** The metrics of this package: name, help and labels, nothing else. Labels come from closed sets. */
import type { MetricOptions } from "@muster/base";

const durations = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** Every metric that the runtime writes. */
export const runtimeMetrics = {
  mailboxDepth: { name: "muster_mailbox_depth_events", help: "Events waiting in the mailbox.", labels: ["lane"] },
  mailboxRefused: {
    name: "muster_mailbox_refused_total",
    help: "Deliveries refused before the machine saw them: unreadable, forged, unexpected, or no room.",
    labels: ["reason"],
  },
  mailboxStale: {
    name: "muster_mailbox_stale_total",
    help: "Deliveries dropped because they were overtaken: an older term, or seen before.",
    labels: ["reason"],
  },
  hostEvents: { name: "muster_host_events_total", help: "Events stepped through the machine.", labels: ["kind"] },
  hostBatch: {
    name: "muster_host_batch_duration_seconds",
    help: "Time to step, persist and start the effects of one batch.",
    buckets: durations,
  },
  hostPersist: { name: "muster_host_persist_duration_seconds", help: "Time to persist one batch.", buckets: durations },
  hostEffects: { name: "muster_host_effects_total", help: "Effects executed.", labels: ["effect"] },
  outboxDepth: { name: "muster_outbox_depth_messages", help: "Messages not yet confirmed by the broker." },
  outboxLatency: {
    name: "muster_outbox_latency_seconds",
    help: "Time from the offer of a message to the broker's confirmation.",
    buckets: durations,
  },
  outboxRetries: { name: "muster_outbox_retries_total", help: "Publishes tried again, same message id." },
  outboxHeldBack: {
    name: "muster_outbox_held_back_total",
    help: "Publishes that a full stream refused; they wait and are tried again.",
    labels: ["stream"],
  },
  outboxShed: {
    name: "muster_outbox_shed_total",
    help: "Public events dropped because the outbox was full.",
    labels: ["kind"],
  },
} as const satisfies Record<string, MetricOptions & { readonly buckets?: readonly number[] }>;
