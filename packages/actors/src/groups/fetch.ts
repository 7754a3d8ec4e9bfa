/** Reads a body out of the groups stream: from its message, or from the pieces that a message names. */
import { createHash } from "node:crypto";
import { decodeMessage, type PiecedBody, readPiecedBody } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { errors } from "../errors.ts";

/** Pieces that are fetched at a time. */
const fetchesMax = 8;

/**
 * Fetches the body that message `seq` of the groups stream has, or whose pieces it names.
 *
 * @param bytesMax - Most bytes that a body of the job has: more is refused before any piece is fetched.
 * @throws MUSTER_ERR_MESSAGE_GONE when the message or a piece is not there any more; MUSTER_ERR_GROUPS_MALFORMED and errors of decoding for what
 *   can not be read; else what the transport throws.
 */
export async function fetchBody(
  transport: Pick<Transport, "fetch">,
  seq: number,
  bytesMax: number,
): Promise<PiecedBody> {
  const message = decodeMessage(await transport.fetch("groups", seq));
  if (message.kind === "groups.batch" || message.kind === "groups.begun") return message;
  if (message.kind !== "groups.joined") throw errors.GroupsMalformed({ seq, reason: `kind ${message.kind}` });
  const { kind, pieces, bytes, digest } = message.body;
  if (bytes > bytesMax)
    throw errors.GroupsMalformed({ seq, reason: `${bytes} bytes in pieces, and groups of this job have ${bytesMax}` });
  const packed = new Uint8Array(bytes);
  const hash = createHash("sha256");
  let at = 0;
  // Each is digested when it comes, and not several in a row: others in this process wait no longer than one piece takes.
  for await (const piece of inOrder(pieces, (one) => fetchPiece(transport, one, seq))) {
    if (at + piece.length > bytes)
      throw errors.GroupsMalformed({ seq, reason: `its pieces have more than ${bytes} bytes` });
    packed.set(piece, at);
    hash.update(piece);
    at += piece.length;
  }
  if (at !== bytes || hash.digest("hex") !== digest)
    throw errors.GroupsMalformed({ seq, reason: "its pieces are not what it says of them" });
  return readPiecedBody(kind, packed, message.minor);
}

/** Gives what is fetched of each, in order, while the next ones are on their way. */
async function* inOrder<T>(of: readonly number[], fetch: (one: number) => Promise<T>): AsyncGenerator<T> {
  const underway: Promise<T>[] = [];
  const waiting = [...of];
  const begin = (): void => {
    const one = waiting.shift();
    if (one === undefined) return;
    const fetching = fetch(one);
    fetching.catch(() => {}); // whoever takes it hears of it
    underway.push(fetching);
  };
  for (let i = 0; i < fetchesMax; i++) begin();
  for (let next = underway.shift(); next; next = underway.shift()) {
    yield await next;
    begin();
  }
}

async function fetchPiece(transport: Pick<Transport, "fetch">, piece: number, seq: number): Promise<Uint8Array> {
  const message = decodeMessage(await transport.fetch("groups", piece));
  if (message.kind !== "groups.piece")
    throw errors.GroupsMalformed({ seq, reason: `message ${piece} is ${message.kind} and no piece` });
  return message.body.bytes;
}
