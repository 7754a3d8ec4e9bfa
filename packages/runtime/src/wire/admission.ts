/**
 * Decides whether bytes from a subject are a message for this actor: readable, of this job, said by who the subject says, of a kind
 * that belongs there, and not of a term that is over. The broker lets each role publish to its own subjects only, so the subject
 * is the word of the broker and the envelope only the word of the sender.
 */
import { MusterError, messageOf } from "@muster/base";
import {
  type AnyMessage,
  checkMinor,
  type Direction,
  decodeSealed,
  isKind,
  maySay,
  messageTable,
  narrowBounds,
  payloadBytesMax,
  protocolMinorLeast,
  type RefusalReason,
  type SealedMessage,
  senderOfSubject,
  smallBytesMax,
  unseal,
  wideBounds,
} from "@muster/protocol";

/** What admission says of bytes. */
export type Verdict =
  | { readonly type: "message"; readonly message: AnyMessage }
  | { readonly type: "refused"; readonly reason: RefusalReason; readonly detail: string }
  | { readonly type: "stale" };

/** Judges bytes and remembers the highest term. */
export interface Admission {
  /** @param seq Of the stream that stored it; an operator's command may be its body alone there. */
  judge(subject: string, data: Uint8Array, seq?: number): Verdict;
  /** Highest term that a command carried; 0 before the first. */
  term(): number;
}

/** For whom admission is decided. */
export interface AdmissionOptions {
  readonly job: string;
  /** Id of this actor: commands for others are refused. */
  readonly self: string;
  /** Oldest minor version that it takes; default that of this build. */
  readonly minorLeast?: number | undefined;
  /** False for kinds that this actor has no use for. */
  readonly expects?: (message: AnyMessage) => boolean;
}

const places: Readonly<Record<string, Direction>> = {
  hb: "heartbeat",
  probe: "probe",
  reports: "report",
  commands: "command",
  events: "event",
};

/** Creates the admission of one actor. */
export function createAdmission(options: AdmissionOptions): Admission {
  const { job, self, minorLeast = protocolMinorLeast, expects = () => true } = options;
  let highestTerm = 0;

  /** What surrounds a message is enough to refuse most of what is wrong; its body, which may be large, is looked at last. */
  const judgeMessage = (subject: string, sealed: SealedMessage): Verdict => {
    checkMinor(sealed, minorLeast);
    if (sealed.job !== job) return refused("wrong_job", `message of job ${sealed.job}`);
    const forgery = forgeryOf(subject, sealed, { job, self });
    if (forgery) return refused("spoofed", forgery);
    const { role, kind, from } = sealed;
    if (!maySay(role, kind)) return refused("wrong_role", `${kind} is not for role ${role} to say (${from})`);
    const message = unseal(sealed);
    if (message.kind === "replica.register" && message.body.role !== role)
      return refused("spoofed", `${role} ${from} registers as ${message.body.role}`);
    if (!expects(message)) return refused("unexpected", `${message.kind} from ${message.role} ${message.from}`);
    if (messageTable[message.kind].direction !== "command") return { type: "message", message };
    if (message.term < highestTerm) return { type: "stale" };
    highestTerm = message.term;
    return { type: "message", message };
  };

  return {
    judge(subject, data, seq) {
      if (data.length > bytesMaxOf(subject))
        return refused("too_large", `${data.length} bytes; a message of this kind has at most ${smallBytesMax}`);
      try {
        const arrival = seq === undefined ? undefined : { subject, seq };
        return judgeMessage(subject, decodeSealed(data, isWide(subject) ? wideBounds : narrowBounds, arrival));
      } catch (error) {
        const reason = refusalOf(error);
        if (!reason) throw error;
        return refused(reason, messageOf(error));
      }
    },
    term: () => highestTerm,
  };
}

const refused = (reason: RefusalReason, detail: string): Verdict => ({ type: "refused", reason, detail });

/** True for a place where only the controller speaks. */
const isWide = (subject: string): boolean => ["commands", "events"].includes(subject.split(".", 3)[2] ?? "");

/** Most bytes of what comes on a subject: known before anything is decoded. */
function bytesMaxOf(subject: string): number {
  const kind = subject.split(".").slice(5).join(".");
  const isLarge = isKind(kind) && "isLarge" in messageTable[kind];
  return isLarge || isWide(subject) ? payloadBytesMax : smallBytesMax;
}

const otherVersions: ReadonlySet<string> = new Set([
  "MUSTER_ERR_MESSAGE_OTHER_VERSION",
  "MUSTER_ERR_MESSAGE_OLDER_VERSION",
]);

function refusalOf(error: unknown): RefusalReason | null {
  if (!(error instanceof MusterError)) return null;
  if (error.code === "MUSTER_ERR_MESSAGE_TOO_LARGE") return "too_large";
  if (otherVersions.has(error.code)) return "other_version";
  if (error.code === "MUSTER_ERR_MESSAGE_UNKNOWN_KIND") return "unknown_kind";
  return error.code === "MUSTER_ERR_MESSAGE_MALFORMED" ? "malformed" : null;
}

/** What does not fit between a subject and the envelope that came on it, or `null`. */
function forgeryOf(
  subject: string,
  message: SealedMessage,
  own: { readonly job: string; readonly self: string },
): string | null {
  const [root, job, place = "", ...rest] = subject.split(".");
  if (root !== "muster" || job !== own.job) return `subject ${subject} is not of this job`;
  const direction = messageTable[message.kind].direction;
  if (places[place] !== direction) return `${direction} ${message.kind} on ${subject}`;
  if (direction !== "heartbeat" && direction !== "probe" && !subject.endsWith(`.${message.kind}`))
    return `${message.kind} on ${subject}`;
  if (direction === "command" || direction === "event" || direction === "probe")
    return direction === "event" || rest[0] === own.self ? null : `command for ${rest[0]}`;
  const sender = senderOfSubject(subject);
  if (sender?.role === message.role && sender.id === message.from) return null;
  return `${message.role} ${message.from} on ${subject}`;
}
