/** What the client libraries throw, in our words: one place that knows their classes. */
import { MusterError, messageOf } from "@muster/base";
import { JetStreamApiCodes, JetStreamApiError, JetStreamError } from "@nats-io/jetstream";
import { errors as natsErrors, PermissionViolationError } from "@nats-io/nats-core";
import { errors } from "../errors.ts";

/** No answer will come: the connection was cut or the wait ended. Whether the request arrived is unknown. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
}

const putOffStepMaxMs = 600_000;

/** Whoever answers has too much to do, and says when to ask again. */
export class PutOff extends NoAnswer {
  readonly retryMs: number;

  constructor(retryMs: number) {
    super(`there is too much to do; it comes in ${retryMs} ms`);
    this.retryMs = Math.min(Math.max(0, Number(retryMs) || 0), putOffStepMaxMs);
  }
}

const wrongSequence: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
];
/** The server's code for a last message that has another id. */
const wrongIdCode = 10070;
/** The server's code for a message that its store did not take, for whatever reason. */
const storeFailedCode = 10077;
const noRoomReason = /maximum (bytes|messages|messages per subject) exceeded|no space left/i;
/** The limits of the account, of the server and of its storage are reached. */
const noRoomCodes: readonly number[] = [10002, 10023, 10047];
/** The server's status while it has no leader, no room for the moment, or is just starting. */
const unavailableStatus = 503;

const transientClasses = [
  NoAnswer,
  JetStreamError,
  natsErrors.TimeoutError,
  natsErrors.RequestError,
  natsErrors.ConnectionError,
  natsErrors.ClosedConnectionError,
];

/** True when the same request can succeed a moment later: no answer, no leader, cut connection. */
export function isTransient(error: unknown): boolean {
  if (find(error, PermissionViolationError)) return false;
  if (error instanceof JetStreamApiError) {
    return error.status === unavailableStatus && !wrongSequence.includes(error.code);
  }
  return transientClasses.some((transient) => find(error, transient) !== null);
}

/** Turns a library error into a Muster error; a Muster error stays as it is. */
export function translate(error: unknown, what: string): MusterError {
  if (error instanceof MusterError) return error;
  const permission = find(error, PermissionViolationError);
  if (permission) {
    return errors.BrokerPermission({ operation: permission.operation, subject: permission.subject }, error);
  }
  if (isApiError(error, JetStreamApiCodes.StreamNotFound)) return errors.StreamMissing({ what }, error);
  if (error instanceof JetStreamApiError) {
    return errors.BrokerRefused({ what, reason: error.message, apiCode: error.code }, error);
  }
  if (find(error, natsErrors.InvalidArgumentError)) {
    return errors.BrokerRefused({ what, reason: messageOf(error), apiCode: 0 }, error);
  }
  return errors.BrokerFailed({ what, reason: messageOf(error) }, error);
}

/** True for the answer of the broker's API with this code. */
export function isApiError(error: unknown, code: number): boolean {
  return error instanceof JetStreamApiError && error.code === code;
}

/** True when the broker refused a message because there is no room for it: a limit of its stream, or of the whole store. */
export function isFull(error: unknown): error is JetStreamApiError {
  if (!(error instanceof JetStreamApiError)) return false;
  return noRoomCodes.includes(error.code) || (error.code === storeFailedCode && noRoomReason.test(error.message));
}

/** True when `error` says that a compare-and-set lost. */
export function isWrongSequence(error: unknown): boolean {
  return error instanceof MusterError && wrongSequence.includes(Number(error.params.apiCode));
}

/** True when `error` says that the last message is not the one that was expected to be. */
export function isWrongId(error: unknown): boolean {
  return error instanceof MusterError && error.params.apiCode === wrongIdCode;
}

/** True when the user or password was refused. */
export function isAuthFailure(error: unknown): boolean {
  return find(error, natsErrors.AuthorizationError) !== null;
}

/** The first error of a class along the chain of causes. */
function find<E extends Error>(error: unknown, kind: abstract new (...args: never[]) => E): E | null {
  for (let at: unknown = error; at instanceof Error; at = at.cause) if (at instanceof kind) return at;
  return null;
}
