/**
 * Stores a body in the groups stream: in one message where it fits, else in pieces and a last message that names them. Pieces go one after the other,
 * so that no more than one of them waits in the outbox; other messages of the replica go between them. Until the last message is stored nothing
 * points to the pieces: what they are is complete, or it is not there.
 */
import { createHash } from "node:crypto";
import {
  type AnyMessage,
  type Enveloper,
  type Identity,
  type Message,
  type PiecedBody,
  type PiecedKind,
  pack,
  packedBytesAtMost,
  placeOf,
  type StreamPlace,
  subjectsOf,
} from "@muster/protocol";
import type { Outbox } from "@muster/runtime";

/** What storing works with. */
export interface StoreTools {
  readonly outbox: Pick<Outbox, "offer">;
  readonly enveloper: Enveloper;
  readonly identity: Pick<Identity, "job" | "id">;
  /** Most bytes of a body in one message (`limits.message_bytes`). */
  readonly messageBytes: number;
}

/** Who wants to know what becomes of it. */
export interface Storing {
  /** All of it is stored, there. */
  readonly onStored: (place: StreamPlace) => void;
  /** The stream has no room for it now; said at each try. */
  readonly onHeldBack?: (reason: string) => void;
}

/** Stores a body. @returns False when the outbox took nothing of it: it is closed, and nobody will be told. */
export function storeBody(tools: StoreTools, stored: PiecedBody, storing: Storing): boolean {
  const { enveloper, messageBytes } = tools;
  if (!isSurelySmall(stored, messageBytes)) {
    const packed = pack(stored.body);
    if (packed.length > messageBytes) return storeInPieces(tools, { kind: stored.kind, packed }, storing);
  }
  const message = enveloper.stamp<PiecedKind>(stored.kind, stored.body);
  return offer(tools, {
    message,
    onHeldBack: storing.onHeldBack,
    onStored: (seq) => storing.onStored({ streamSeq: seq }),
  });
}

/** True for what fits into a message, whatever it takes exactly: then it is packed once, with its envelope. */
const isSurelySmall = (stored: PiecedBody, bytesMax: number): boolean =>
  stored.kind === "groups.batch" && packedBytesAtMost(stored.body.groups) <= bytesMax;

function storeInPieces(
  tools: StoreTools,
  { kind, packed }: { readonly kind: PiecedKind; readonly packed: Uint8Array },
  { onStored, onHeldBack }: Storing,
): boolean {
  const { enveloper, messageBytes } = tools;
  const pieces: number[] = [];
  // Piece by piece: all at once would keep everything else in this process waiting.
  const hash = createHash("sha256");
  const join = (): boolean => {
    const message = enveloper.stamp("groups.joined", {
      ...{ kind, pieces, bytes: packed.length },
      digest: hash.digest("hex"),
    });
    return offer(tools, { message, onHeldBack, onStored: (seq) => onStored(placeOf(seq, Math.min(...pieces))) });
  };
  const next = (): boolean => {
    const from = pieces.length * messageBytes;
    if (from >= packed.length) return join();
    const bytes = packed.slice(from, from + messageBytes);
    hash.update(bytes);
    const message = enveloper.stamp("groups.piece", { bytes });
    const onPiece = (seq: number): void => {
      pieces.push(seq);
      next();
    };
    return offer(tools, { message, onHeldBack, onStored: onPiece });
  };
  return next();
}

interface Offer {
  readonly message: Message<PiecedKind | "groups.piece" | "groups.joined">;
  readonly onStored: (seq: number) => void;
  readonly onHeldBack: Storing["onHeldBack"];
}

function offer({ outbox, identity }: StoreTools, { message, onStored, onHeldBack = () => {} }: Offer): boolean {
  const subject = subjectsOf(identity.job).groups(identity.id);
  return outbox.offer({ subject, message: message as AnyMessage, onStored: ({ seq }) => onStored(seq), onHeldBack });
}
