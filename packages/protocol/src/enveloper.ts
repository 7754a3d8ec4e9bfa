/** Stamps what leaves an actor: who says it, in which life, as its how-manieth message, under which term and epoch. */
import type { Message } from "./codec.ts";
import { protocolMinor, protocolVersion } from "./envelope.ts";
import type { Role } from "./ids.ts";
import type { Body, Kind } from "./messages/index.ts";
import { clipBody } from "./outgoing.ts";

/** One life of one actor in a job. */
export interface Identity {
  readonly job: string;
  readonly id: string;
  readonly role: Role;
  readonly incarnation: string;
}

/** What a message may carry besides its body. */
export interface StampOptions {
  /** Time the receiver has for it; default no limit. */
  readonly deadlineMs?: number;
  /** Id of the message that led to this one. */
  readonly cause?: string;
  /** Id for a resend of an earlier message; default `<incarnation>.<seq>`. */
  readonly id?: string;
}

/** Makes the messages of one incarnation. */
export interface Enveloper {
  readonly identity: Identity;
  /** Sets the term stamped from now on. */
  setTerm(term: number): void;
  /** Sets the mesh epoch stamped from now on. */
  setEpoch(epoch: number): void;
  /** Makes the next message, its texts cut to what its schema takes; each call takes one `seq`, from 1. */
  stamp<K extends Kind>(kind: K, body: Body<K>, options?: StampOptions): Message<K>;
}

/**
 * Starts the message counter of an incarnation.
 *
 * @param options - `wallMs` reads wall time for `sentAtMs`, which is for people only.
 */
export function createEnveloper(options: Identity & { readonly wallMs: () => number }): Enveloper {
  const { wallMs, ...identity } = options;
  let seq = 0;
  let term = 0;
  let epoch = 0;
  return {
    identity,
    setTerm(value) {
      term = value;
    },
    setEpoch(value) {
      epoch = value;
    },
    stamp(kind, body, { deadlineMs, cause, id } = {}) {
      seq += 1;
      return {
        v: protocolVersion,
        ...(protocolMinor === 0 ? {} : { minor: protocolMinor }),
        id: id ?? `${identity.incarnation}.${seq}`,
        kind,
        job: identity.job,
        from: identity.id,
        role: identity.role,
        incarnation: identity.incarnation,
        seq,
        term,
        epoch,
        deadlineMs: deadlineMs ?? null,
        sentAtMs: wallMs(),
        ...(cause === undefined ? {} : { cause }),
        body: clipBody(kind, body),
      };
    },
  };
}
