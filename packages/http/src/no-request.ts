/** What a server says to who sends it no request: noise, headers without an end, nothing in time. */

/** Bounds of a server that such an answer names. */
export interface RequestBounds {
  readonly headerBytesMax: number;
  /** For a whole request to arrive. */
  readonly receiveMs: number;
}

/** A status and one sentence, by the code of the error that the parser of Node.js gives. Pure. */
export function noRequestOf(
  code: string | undefined,
  { headerBytesMax, receiveMs }: RequestBounds,
): { readonly status: 400 | 408 | 431; readonly message: string } {
  if (code === "HPE_HEADER_OVERFLOW")
    return { status: 431, message: `headers: they are longer than ${headerBytesMax} bytes` };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return { status: 408, message: `the request did not arrive within ${receiveMs} ms` };
  return { status: 400, message: "the request is not HTTP/1.1" };
}

/** The whole answer, for a socket that has no response yet; the connection ends with it. Pure. */
export function rawAnswer(status: number, body: string): string {
  const head = `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\nconnection: close`;
  return `${head}\r\ncontent-length: ${new TextEncoder().encode(body).length}\r\n\r\n${body}`;
}
