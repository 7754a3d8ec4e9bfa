/**
 * Whoever says something that the controller does not take hears so in public: what it was, from whom, and why. A flood of such words is told at a
 * bounded rate, each role with a share of its own, and raises one alarm and not one for each.
 */
import { Allowance, type Clock } from "@muster/base";
import { type Body, peekMessage, senderOfSubject } from "@muster/protocol";
import type { Refusal } from "@muster/runtime";
import { type VersionGuardOptions, versionGuard } from "./version-guard.ts";

/** How it is said. */
export interface RefusalDeskOptions {
  readonly clock: Clock;
  /** Answers one refusal in public. */
  readonly tell: (body: Body<"message.refused">) => void;
  /** Tells the operator that there are such; once for all that come close together. */
  readonly alarm: (alarm: "refused" | "version", detail: string) => void;
  /** Tells a replica of another release, which asks to be admitted. */
  readonly refuse: VersionGuardOptions["refuse"];
}

/** Answers to one role. */
const answers = { burst: 16, perSecond: 1 };

/** Time without an alarm about a role after which there may be one again. */
const alarmEveryMs = 60_000;

const subjectMax = 256;
const detailMax = 1_000;

interface Share {
  readonly answers: Allowance;
  /** Refusals without an answer since the last one that had one. */
  unsaid: number;
  /** Refusals since the last alarm. */
  since: number;
  alarmMs: number;
}

/** Opens the desk of one term. */
export function refusalDesk({ clock, tell, alarm, refuse }: RefusalDeskOptions): (refusal: Refusal) => void {
  const onOtherVersion = versionGuard({ alarm: (detail) => alarm("version", detail), refuse });
  const shares = new Map<string, Share>();

  const shareOf = (role: string): Share => {
    const fresh = { answers: new Allowance(answers), unsaid: 0, since: 0, alarmMs: -alarmEveryMs };
    const share = shares.get(role) ?? fresh;
    shares.set(role, share);
    return share;
  };

  return ({ subject, data, seq, reason, detail }) => {
    if (reason === "other_version") onOtherVersion({ subject, data, detail });
    const nowMs = clock.now();
    const by = senderOfSubject(subject);
    const sender = by ? `${by.role} ${by.id}`.slice(0, 128) : "";
    const share = shareOf(by?.role ?? "");
    share.since += 1;
    if (reason !== "other_version" && nowMs - share.alarmMs >= alarmEveryMs) {
      const others = share.since > 1 ? `; ${share.since} refused messages of this role since the last alarm` : "";
      alarm(
        "refused",
        `a message of ${sender || "somebody"} is refused (${reason}): ${detail.slice(0, detailMax)}${others}`,
      );
      share.alarmMs = nowMs;
      share.since = 0;
    }
    if (!share.answers.take(nowMs)) {
      share.unsaid += 1;
      return;
    }
    const { unsaid } = share;
    share.unsaid = 0;
    const read = peekMessage(data, seq === undefined ? undefined : { subject, seq });
    tell({
      ...read,
      sender,
      subject: subject.slice(0, subjectMax),
      code: reason,
      detail: detail.slice(0, detailMax),
      unsaid,
    });
  };
}
