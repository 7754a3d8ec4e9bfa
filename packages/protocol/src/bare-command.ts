/** A command that came as its JSON body alone, as `nats pub` sends it: what surrounds a message is made from where it came. */
import { protocolMinor, protocolVersion } from "./envelope.ts";
import { senderOfSubject } from "./subjects.ts";

/** Where bytes came: the subject on which the broker let their sender speak, and their sequence in the stream. */
export interface Arrival {
  readonly subject: string;
  readonly seq: number;
}

/** Fields that only a whole message has; no body of a command has one of them. */
const wholeKeys = ["v", "kind", "body"];

/** The life of everybody who sends bodies alone: the sequence in the stream tells their messages apart. */
const incarnation = "json";

/** The message around an operator's body, `null` when the value is a whole message or not said by an operator. Pure. */
export function envelopeOfBody(value: unknown, arrival: Arrival): object | null {
  const made = idOfArrival(arrival);
  const sender = senderOfSubject(arrival.subject);
  if (!made || !sender || typeof value !== "object" || value === null || Array.isArray(value)) return null;
  if (wholeKeys.some((key) => Object.hasOwn(value, key))) return null;
  const [, job] = arrival.subject.split(".", 2);
  const { seq } = arrival;
  return {
    ...{ v: protocolVersion, id: made.id, kind: made.said, job, from: sender.id, role: sender.role, incarnation, seq },
    ...(protocolMinor === 0 ? {} : { minor: protocolMinor }),
    ...{ term: 0, epoch: 0, deadlineMs: null, sentAtMs: 0, body: value },
  };
}

/** Id and kind of a body that came alone, by its place: who said it knows both. `null` where nobody may do so. Pure. */
export function idOfArrival({ subject, seq }: Arrival): { readonly id: string; readonly said: string } | null {
  const sender = senderOfSubject(subject);
  const said = subject.split(".").slice(5).join(".");
  return sender?.role === "operator" ? { id: `json.${sender.id}.${seq}`.slice(0, 128), said: said.slice(0, 48) } : null;
}
