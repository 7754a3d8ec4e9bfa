/** What a client is told that is refused: the same answer in front of the framework and behind it. */
import { Refused, type Reply } from "../core/reply.ts";

/** A reply with the headers that belong to it. */
export interface Refusal {
  readonly reply: Reply;
  readonly headers: Readonly<Record<string, string>>;
}

/** The refusal for whatever was thrown while a request was read. */
export function refusalOf(error: unknown, { bodyBytesMax }: { readonly bodyBytesMax: number }): Refusal {
  const reply = replyOf(error, bodyBytesMax);
  const { status, retryAfter } = reply;
  return {
    reply,
    headers: {
      "content-type": "application/json; charset=utf-8",
      ...(retryAfter === undefined ? {} : { "retry-after": `${retryAfter}` }),
      ...(status === 401 ? { "www-authenticate": "Bearer" } : {}),
      // What was not read of a refused body must not be taken for the next request.
      ...(status === 404 || status === 400 ? {} : { connection: "close" }),
    },
  };
}

function replyOf(error: unknown, bodyBytesMax: number): Reply {
  if (error instanceof Refused) return error.reply;
  const { statusCode, code } = error as { statusCode?: number; code?: string };
  if (statusCode === 413)
    return { status: 413, code: "too_large", message: `the body is longer than ${bodyBytesMax} bytes` };
  if (statusCode === 415) return otherMediaType;
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return { status: 400, code: "invalid_request", message: `the request can not be read: ${code ?? statusCode}` };
  return { status: 500, code: "internal", message: "the server itself failed; its log says why" };
}

/** Bodies are JSON. */
export const otherMediaType: Reply = {
  ...{ status: 415, code: "unsupported_media_type" },
  message: "content-type: it must be application/json",
};
