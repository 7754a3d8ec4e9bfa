/** What the acting controller says: orders to members, and public facts. What can not be said is told to the operator, and ends nothing. */
import { type Logger, messageOf } from "@muster/base";
import type { AnnounceEffect, AnswerEffect, CommandEffect } from "@muster/machines/controller";
import {
  type AnyMessage,
  type Enveloper,
  flawOf,
  isMalformed,
  type Kind,
  type Subjects,
  subjectsOf,
} from "@muster/protocol";
import type { Outbox, OutboxItem } from "@muster/runtime";

/** What a voice is made from. */
export interface VoiceOptions {
  readonly job: string;
  readonly enveloper: Enveloper;
  readonly outbox: Pick<Outbox, "offer" | "room">;
  readonly logger: Logger;
  /** Tells the operator of a message that no receiver would take; once per kind. */
  readonly alarm: (detail: string) => void;
}

/** The voice of one term. */
export class Voice {
  readonly #options: VoiceOptions;
  readonly #subjects: Subjects;
  readonly #unsaid = new Set<Kind>();

  constructor(options: VoiceOptions) {
    this.#options = options;
    this.#subjects = subjectsOf(options.job);
  }

  command({ to, incarnation, kind, body }: CommandEffect): void {
    const message = { ...this.#options.enveloper.stamp(kind, body as never), to: incarnation } as AnyMessage;
    this.#say({ subject: this.#subjects.command(to, kind), message });
  }

  /** An order that may be left out: it is said where there is room for it now. */
  aside(effect: CommandEffect): void {
    if (this.#options.outbox.room() === null) this.command(effect);
  }

  /**
   * A fact has one id whoever says it, so one that is said again after a failover is stored once. `told` is called when it is stored, or when no
   * receiver would ever take it.
   */
  announce({ kind, body }: AnnounceEffect, id: string, told?: () => void): void {
    const { enveloper } = this.#options;
    if (kind === "mesh.changed") enveloper.setEpoch(body.epoch);
    const message = enveloper.stamp(kind, body as never, { id }) as AnyMessage;
    const item = { subject: this.#subjects.event(kind), message, lane: "events" };
    if (!this.#say(told ? { ...item, onStored: told } : item)) told?.();
  }

  /** Says a fact again to whoever asks for it: it may overtake others, which it would only hold up. */
  answer({ kind, body }: AnswerEffect, id: string): void {
    const message = this.#options.enveloper.stamp(kind, body as never, { id }) as AnyMessage;
    this.#say({ subject: this.#subjects.event(kind), message, lane: "answers" });
  }

  /** @returns False for what no receiver would take. */
  #say(item: OutboxItem): boolean {
    const { kind, body } = item.message;
    const flaw = flawOf(kind, body);
    if (flaw !== null) {
      this.#refuse(item, flaw);
      return false;
    }
    try {
      this.#options.outbox.offer(item);
    } catch (error) {
      if (!isMalformed(error)) throw error;
      this.#refuse(item, messageOf(error));
      return false;
    }
    return true;
  }

  #refuse({ subject, message: { kind } }: OutboxItem, reason: string): void {
    const { logger, alarm } = this.#options;
    logger.error({ subject, kind, reason }, "a message could not be said");
    if (this.#unsaid.has(kind)) return;
    this.#unsaid.add(kind);
    alarm(`${kind} could not be said, no receiver would take it: ${reason}`);
  }
}
