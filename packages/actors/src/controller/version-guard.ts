/** What the controller does about processes of another release, whose messages it can not read. */
import { decodeSealed, isMalformed, senderOfSubject } from "@muster/protocol";

/** How it is said. */
export interface VersionGuardOptions {
  /** Tells the operator, once for each sender. */
  readonly alarm: (detail: string) => void;
  /** Tells a replica that asks to be admitted. One of another major version can not read it, but it sees who speaks, and in which version. */
  readonly refuse: (to: { readonly id: string; readonly incarnation: string }, reason: string) => void;
}

/** Life that a refusal is meant for: no reader of this version has it, so that a living member of that id is not hit. */
const nobody = "of-another-version";

/** Senders that are remembered as told of. */
const toldMax = 256;

/** A message of another version: where it came, what it was, and both versions in words. */
interface Other {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly detail: string;
}

/** Hears of each message of another version. */
export function versionGuard({ alarm, refuse }: VersionGuardOptions): (message: Other) => void {
  const told = new Set<string>();
  return ({ subject, data, detail }) => {
    const sender = senderOfSubject(subject);
    if (!sender) return;
    if (subject.endsWith(".replica.register")) refuse({ id: sender.id, incarnation: lifeOf(data) }, detail);
    const who = `${sender.role} ${sender.id}`;
    if (told.has(who) || told.size >= toldMax) return;
    told.add(who);
    alarm(`${who} is not admitted: ${detail}`);
  };
}

/** The life that speaks; {@link nobody} where that can not be read. */
function lifeOf(data: Uint8Array): string {
  try {
    return decodeSealed(data).incarnation;
  } catch (error) {
    if (isMalformed(error)) return nobody;
    throw error;
  }
}
