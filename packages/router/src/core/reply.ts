/** Answers of the router itself: a status and one sentence, in the form that OpenAI clients read. Pure. */

import { nestingMax } from "@muster/http";

/** Codes of what the router answers by itself. */
export type ReplyCode =
  | "invalid_request"
  | "unauthorized"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "misdirected"
  | "unsupported_media_type"
  | "too_large"
  | "bodies_full"
  | "timeout"
  | "queue_full"
  | "no_worker"
  | "fence_unmet"
  | "draining"
  | "engine_failed"
  | "engine_lost"
  | "engine_timeout"
  | "retry_budget"
  | "pool_full"
  | "session_ended"
  | "session_exists"
  | "session_full"
  | "internal";

/** An answer without an engine. */
export interface Reply {
  readonly status: number;
  readonly code: ReplyCode;
  readonly message: string;
  /** Seconds after which to try again. */
  readonly retryAfter?: number;
}

/** The body of an answer. */
export function bodyOfReply({ status, code, message }: Reply): string {
  const type = status < 500 ? "invalid_request_error" : "server_error";
  return JSON.stringify({ object: "error", message, error: { message, type, code } });
}

/** Thrown where a request is found to be wrong. */
export class Refused extends Error {
  readonly reply: Reply;

  constructor(reply: Reply) {
    super(reply.message);
    this.name = "Refused";
    this.reply = reply;
  }
}

/** A request that can not be used, in one sentence that names the field. */
export function invalid(message: string): Refused {
  return new Refused({ status: 400, code: "invalid_request", message });
}

/** What could be read, but neither kept nor compared with what comes later. */
export function nestedTooDeep(): Refused {
  return invalid(`the body is nested deeper than ${nestingMax}: so many objects and lists may be inside of each other`);
}

/** Nothing comes behind the end of a session. */
export function sessionEnded(reason: "asked" | "idle"): Refused {
  const why = reason === "idle" ? " because nobody used it" : "";
  return new Refused({
    ...{ status: 409, code: "session_ended" },
    message: `the session has ended${why}; what was answered before can still be repeated`,
  });
}
