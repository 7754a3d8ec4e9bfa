/** Puts bodies together whose pieces went by. */
import { type AnyMessage, type PiecedBody, readPiecedBody } from "@muster/protocol";

/** The pieces of one run that nothing named yet. */
export class SeenPieces {
  readonly #pieces = new Map<number, Uint8Array>();

  /** The body that is complete with this message of the groups stream; `null` for other messages, and where a piece was never seen. */
  bodyOf(message: AnyMessage, seq: number): PiecedBody | null {
    if (message.kind === "groups.batch" || message.kind === "groups.begun") return message;
    if (message.kind === "groups.piece") this.#pieces.set(seq, message.body.bytes);
    if (message.kind !== "groups.joined") return null;
    const { kind, pieces } = message.body;
    const seen = pieces.flatMap((piece) => this.#pieces.get(piece) ?? []);
    for (const piece of pieces) this.#pieces.delete(piece);
    return seen.length === pieces.length ? readPiecedBody(kind, Buffer.concat(seen), message.minor) : null;
  }
}
