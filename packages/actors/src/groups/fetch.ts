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
  for (let first = 0; first < pieces.length; first += fetchesMax) {
    const some = await Promise.all(
      pieces.slice(first, first + fetchesMax).map((piece) => fetchPiece(transport, piece, seq)),
    );
    for (const piece of some) {
      if (at + piece.length > bytes)
        throw errors.GroupsMalformed({ seq, reason: `its pieces have more than ${bytes} bytes` });
      packed.set(piece, at);
      hash.update(piece);
      at += piece.length;
    }
  }
  if (at !== bytes || hash.digest("hex") !== digest)
    throw errors.GroupsMalformed({ seq, reason: "its pieces are not what it says of them" });
  return readPiecedBody(kind, packed, message.minor);
}

async function fetchPiece(transport: Pick<Transport, "fetch">, piece: number, seq: number): Promise<Uint8Array> {
  const message = decodeMessage(await transport.fetch("groups", piece));
  if (message.kind !== "groups.piece")
    throw errors.GroupsMalformed({ seq, reason: `message ${piece} is ${message.kind} and no piece` });
  return message.body.bytes;
}
