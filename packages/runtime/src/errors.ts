import { defineErrors } from "@muster/base";

/** Errors of the actor host, the wire around it, the configuration and the process. */
export const errors = defineErrors("MUSTER_ERR", {
  MailboxFull: {
    message:
      "the host's own results fill its mailbox ({size} of {limit}); an effect handler posts faster than the machine steps",
  },
  HandlerFailed: {
    message:
      'the handler of effect "{effect}" failed: {reason}; a handler must report an operating failure as an event',
  },
  StepFailed: { message: 'machine {machine} failed on event "{event}": {reason}' },
  EffectUnknown: { message: 'no handler for effect "{effect}"' },
  OutboxFull: {
    message:
      "the outbox holds {limit} messages and cannot take {kind}; the broker has been away too long, or limits.outbox is too small",
    retryable: true,
  },
  HeartbeatThread: { message: "no heartbeat thread at {path}; build the project first (pnpm build)" },
  HeartbeatEnded: { message: "the heartbeat thread ended with code {code}: {reason}", retryable: true },
  HeartbeatPhase: { message: 'phase "{phase}" is not one of the phases this heartbeat was started with: {known}' },
  ConfigInvalid: { message: "{faults} in the configuration:\n{list}" },
  FolderForeign: {
    message:
      "the folder {path} {reason}, so that others could read or replace what is kept there; remove it, make it your own (chown, chmod 700), or choose another",
  },
  MetricsPort: {
    message: "port {port} on {host} is in use, so metrics cannot be served; choose another one, or 0 for a free one",
  },
  MetricsServer: { message: "the metrics server on {host}:{port} failed: {reason}" },
  MetricKind: { message: "metric {name} exists as a {found} and was asked for as a {wanted}" },
});
