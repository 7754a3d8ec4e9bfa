/**
 * Somebody with the credentials of one replica, of a stranger's id, or of a watcher: it says whatever the broker lets it, in messages that are whole, and in
 * them names itself or others. What it may say follows from the broker's allow-lists and not from what anybody has a reason to say; what is no message
 * for the receiver of a place is refused there. Samples are spared: made-up ones of the right shape are trained on (docs/concepts/trust.md).
 */
import type { Random } from "@muster/base";
import {
  type AnyMessage,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  type Identity,
  isKind,
  type Kind,
  type Message,
  messageTable,
  type Role,
  roles,
  subjectsOf,
} from "@muster/protocol";
import { messageKinds } from "@muster/protocol/internal";
import { matcherOf, permissionsOf } from "@muster/transport/internal";
import type { AnyNetwork } from "../net/network.ts";
import { kindOfSubject } from "../net/subject-kind.ts";
import { drawBody, type Facts, factsOf } from "./draft.ts";

/** Whose credentials may be stolen. Whoever has the operator's or the controller's has the job. */
export const stolenRoles = ["policy", "rollout", "checkpoint", "node", "watcher"] as const;

/** One of the {@link stolenRoles}. */
export type StolenRole = (typeof stolenRoles)[number];

/** Shares of messages: under an id that nobody has, in the envelope of somebody else, and about something that was said before. */
const strangerShare = 0.2;
const otherShare = 0.15;
const repeatedShare = 0.5;
/** And of a kind that belongs to another place. */
const misplacedShare = 0.05;

/** Counters of a life end far below this one, so that nothing is taken for what was said before. */
const seqBase = 2 ** 41;

/** Every subject on which the broker lets a replica publish a message: its own, those of others, and those of the controller. Pure. */
export function placesOf(job: string, role: StolenRole, id: string, ids: readonly string[]): readonly string[] {
  const subjects = subjectsOf(job);
  const places = [
    subjects.journal,
    ...messageKinds.map((kind) => subjects.event(kind)),
    ...ids.flatMap((other) => [
      subjects.probe(other),
      ...messageKinds.map((kind) => subjects.command(other, kind)),
      ...roles.flatMap((as) => [
        subjects.heartbeat(as, other),
        ...messageKinds.map((kind) => subjects.report(as, other, kind)),
      ]),
    ]),
  ];
  const allows = permissionsOf(job, role, id).publish.map((pattern) => matcherOf(pattern));
  return places.filter((subject) => allows.some((isAllowed) => isAllowed(subject)));
}

/** What was said with whose credentials, and as which life of whom. */
export interface Said {
  readonly kind: Kind;
  readonly from: string;
  readonly as: string;
  readonly incarnation: string;
}

/** Says what the stolen credentials of one role allow. */
export class Thief {
  readonly #network: AnyNetwork;
  readonly #random: Random;
  #count = 0;

  constructor(network: AnyNetwork, random: Random) {
    this.#network = network;
    this.#random = random;
  }

  /** Says one thing with the credentials of a replica of this role. @returns What was said, and as whom. */
  say(role: StolenRole): Said | null {
    const said = [...this.#network.reports.values()].flatMap((data) => read(data) ?? []);
    const known = said.map(
      ({ from, role: of, incarnation, job }): Identity => ({ id: from, role: of, incarnation, job }),
    );
    const own = this.#identityOf(role, known);
    const ids = [own.id, ...[1, 2, 3].flatMap(() => this.#pick(known)?.id ?? [])];
    const subject = this.#pick(placesOf(own.job, role, own.id, ids));
    if (subject === undefined) return null;
    const usual = kindOfSubject(subject);
    const kind = this.#random.next() < misplacedShare || !isKind(usual) ? this.#pick(messageKinds) : usual;
    if (!kind) return null;
    const as = this.#random.next() < otherShare ? (this.#pick(known) ?? own) : own;
    const body = this.#bodyOf(kind, said);
    if (body === null) return null;
    const stamped = createEnveloper({ ...as, wallMs: () => 0 }).stamp(kind, body as never);
    const seq = seqBase + ++this.#count;
    const message = { ...stamped, seq, id: `stolen-${seq}`, term: this.#pick(said)?.term ?? 0 } as Message;
    const data = encodeMessage(message);
    if (subject.split(".")[2] === "hb") this.#network.store.send(subject, data);
    else void this.#network.store.publish(subject, data, { msgId: message.id });
    return { kind, from: own.id, as: as.id, incarnation: as.incarnation };
  }

  #identityOf(role: StolenRole, known: readonly Identity[]): Identity {
    const { job } = this.#network.options;
    const living = known.filter((identity) => identity.role === role);
    const one = this.#random.next() < strangerShare ? undefined : this.#pick(living);
    const stranger = `${role}-${90 + this.#random.below(3)}`;
    return one ?? { job, id: stranger, role: role as Role, incarnation: `${stranger}-stolen` };
  }

  /** What was said about this matter, with a fact or two of others in it, or something that is made up of facts. */
  #bodyOf(kind: Kind, said: readonly AnyMessage[]): unknown {
    const facts: Facts = factsOf(said.flatMap(({ from, body }) => [{ id: from }, body]));
    const { body: schema } = messageTable[kind];
    const real = this.#pick(said.filter((message) => message.kind === kind));
    const drawn = drawBody(schema, facts, this.#random);
    if (!real || this.#random.next() >= repeatedShare) return drawn;
    const keys = Object.keys(real.body).filter(() => this.#random.next() < 0.3);
    const mixed = { ...real.body, ...Object.fromEntries(keys.map((key) => [key, (drawn as object)?.[key as never]])) };
    const parsed = schema.safeParse(mixed);
    return parsed.success ? parsed.data : drawn;
  }

  #pick<T>(all: readonly T[]): T | undefined {
    return all[this.#random.below(Math.max(1, all.length))];
  }
}

function read(data: Uint8Array): AnyMessage | null {
  try {
    return decodeMessage(data);
  } catch {
    return null;
  }
}
