/** Messages that must be refused, each for one reason, made from one that would be believed. */
import { type AnyMessage, encodeMessage, pack, payloadBytesMax } from "@muster/protocol";

/** Reasons as the metric names them, and how many of the messages of {@link badMessages} each explains. */
export const refusals = { malformed: 3, unknown_kind: 1, wrong_job: 1, spoofed: 2 } as const;

/** More than a message may have; streams do not store it, so only what is not stored can carry it. */
export const oversized = new Uint8Array(payloadBytesMax + 1);

/** Bytes by what is wrong with them. */
export function badMessages(good: AnyMessage): Readonly<Record<string, Uint8Array>> {
  const data = encodeMessage(good);
  return {
    garbage: Uint8Array.from({ length: 64 }, (_, i) => (i * 37 + 193) % 256),
    truncated: data.subarray(0, data.length / 2),
    extraField: pack({ ...good, body: { ...good.body, extra: true } }),
    unknownKind: pack({ ...good, kind: "job.destroy" }),
    wrongJob: pack({ ...good, job: "other" }),
    otherSender: pack({ ...good, role: "policy", from: "policy-0" }),
    otherRole: pack({ ...good, role: "checkpoint" }),
  };
}
