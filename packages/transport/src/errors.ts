import { defineErrors } from "@muster/base";

/** Errors of the broker, of what is stored on it, and of starting one. */
export const errors = defineErrors("MUSTER_ERR", {
  // Reaching the broker
  BrokerUnreachable: {
    message:
      "no NATS server answered at {url} within {timeoutMs} ms ({reason}); start one, or point MUSTER_NATS_URL to a running one",
    retryable: true,
  },
  BrokerTooOld: { message: "the NATS server at {url} is version {version}; Muster needs {minimum} or newer" },
  BrokerPayload: {
    message:
      "the NATS server at {url} takes messages of at most {found} bytes, and Muster needs {wanted}; set max_payload: {wanted} in its configuration",
  },
  BrokerAuth: {
    message: 'the NATS server at {url} refused user "{user}"; check the credentials that this process was given',
  },
  CredentialsOther: {
    message:
      "these are the credentials of {user} {owner}, and {id} can not connect with them; muster credentials {user} --replica {id} writes its own",
  },
  BrokerPermission: {
    message: 'the broker does not let this role {operation} "{subject}"; another role owns that subject',
  },
  BrokerOpen: {
    message:
      "the NATS server at {url} accepts connections without credentials; configure users and remove no_auth_user before running a job on it",
  },
  BrokerTimeout: { message: "{what} got no answer within {timeoutMs} ms ({reason})", retryable: true },
  BrokerRefused: { message: "the broker refused {what}: {reason} (code {apiCode})" },
  BrokerFailed: { message: "{what} failed: {reason}", retryable: true },
  TransportClosed: { message: "{what} is impossible because this connection was closed" },
  DeliveryHandlerFailed: { message: 'the handler of "{subject}" failed on message {seq}: {reason}', retryable: true },
  // What is stored
  PublishUnknown: {
    message:
      "{what} was not confirmed within {timeoutMs} ms ({reason}); it may have been stored, so publish again with the same message id",
    retryable: true,
  },
  StreamFull: {
    message:
      "stream {stream} takes no more ({reason}; it holds {limit} unless set otherwise), so what comes waits and is sent again; {fix}",
    retryable: true,
  },
  JournalFull: {
    message:
      "the journal {stream} takes no more ({reason}; it holds {limit} unless set otherwise), so nothing more can be decided; raise max_bytes of that stream on a broker of your own and resume, or go on under another job name, from the newest checkpoint",
  },
  StreamMissing: { message: "{what} found no stream; the controller must prepare the job first", retryable: true },
  StreamMismatch: {
    message:
      "stream {stream} has {field} = {found} but this version of Muster needs {wanted}; use another job name or remove the stream",
  },
  MessageGone: { message: "message {seq} is no longer in stream {stream}; it was purged, acknowledged or expired" },
  Fenced: {
    message: "record {seq} of the journal was written by another controller; stop, this one has been replaced",
  },
  JournalCut: {
    message:
      "the journal ends at record {last}, and record {acknowledged} was acknowledged: the broker has lost what it had confirmed (JetStream needs sync_interval: always, and a store that is not set back); go on under another job name, from the newest checkpoint",
  },
  StateConflict: { message: 'key "{key}" is no longer at revision {expectedRevision}; read it again and decide anew' },
  StateKeyInvalid: { message: '"{key}" is not a state key; use letters, digits, "-", "_", "=", "/" and inner dots' },
  // Starting a server
  BrokerBinary: {
    message:
      "no usable nats-server at {binary} ({reason}); set MUSTER_NATS_SERVER to the path of one, or MUSTER_NATS_URL to a running server",
  },
  BrokerStart: { message: "nats-server did not start within {timeoutMs} ms: {reason}" },
  PortInUse: {
    message: "port {port} is in use{holder}; end what uses it, or choose another port, or 0 for a free one",
  },
  BrokerOfBefore: {
    message:
      "{directory} holds a broker of an earlier version, whose streams this version can not open; end that job with the version that began it, or use another job name",
  },
  BrokerStoreInUse: {
    message: "nats-server {pid} already uses {directory}; stop it, or give this job another directory",
  },
});
