/** What the controller does about processes of another release, whose messages it can not read. */
import { senderOfSubject } from "@muster/protocol";

/** How it is said. */
export interface VersionGuardOptions {
  /** Tells the operator, once for each sender. */
  readonly alarm: (detail: string) => void;
  /** Tells a replica that asks to be admitted; it can not read it, but it sees who speaks, and in which version. */
  readonly refuse: (id: string, reason: string) => void;
}

/** Life that a refusal is meant for: no reader of this version has it, so that a living member of that id is not hit. */
export const nobody = "of-another-version";

/** Senders that are remembered as told of. */
const toldMax = 256;

/** Hears of each message of another version: the subject that it came on, and both versions in words. */
export function versionGuard({ alarm, refuse }: VersionGuardOptions): (subject: string, detail: string) => void {
  const told = new Set<string>();
  return (subject, detail) => {
    const sender = senderOfSubject(subject);
    if (!sender) return;
    if (subject.endsWith(".replica.register")) refuse(sender.id, detail);
    const who = `${sender.role} ${sender.id}`;
    if (told.has(who) || told.size >= toldMax) return;
    told.add(who);
    alarm(`${who} is not admitted: ${detail}`);
  };
}
