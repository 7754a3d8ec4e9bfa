/** What the acting controller shows in the state store: each second that it lives, and the status of its job. */

import { type Clock, type Logger, messageOf } from "@muster/base";
import { type Identity, statusKey } from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { writeAlive } from "./alive.ts";

/** Time between two words on a status that can not be written. */
const sayEveryMs = 60_000;

/** What a face is made from. */
export interface FaceOptions {
  readonly transport: Pick<Transport, "state" | "isConnected">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly identity: Identity;
  readonly term: number;
  /** Writes the status. */
  readonly draw: () => Uint8Array;
  readonly isOver: () => boolean;
  /** Tells the operator that the status can not be written; once a minute at most. */
  readonly alarm: (detail: string) => void;
}

/** Shows the controller and its job. */
export class Face {
  readonly #options: FaceOptions;
  #beat = 0;
  #quietUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: FaceOptions) {
    this.#options = options;
  }

  /** Writes both; neither waits for the other, and a failure of one is none of the other. */
  async show(): Promise<void> {
    await Promise.all([this.#live(), this.#draw()]);
  }

  async #live(): Promise<void> {
    const { transport, logger, identity, term, isOver } = this.#options;
    const sign = { term, incarnation: identity.incarnation, beat: ++this.#beat, isOver: isOver() };
    await writeAlive(transport.state(), sign).catch((error: unknown) =>
      logger.debug({ error }, "no sign of life written"),
    );
  }

  async #draw(): Promise<void> {
    const { transport, draw } = this.#options;
    try {
      await transport.state().put(statusKey, draw());
    } catch (error) {
      this.#failed(error);
    }
  }

  /** While the broker is away nothing can be written: that is said elsewhere. */
  #failed(error: unknown): void {
    const { transport, clock, logger, alarm } = this.#options;
    if (!transport.isConnected() || clock.now() < this.#quietUntilMs) return;
    this.#quietUntilMs = clock.now() + sayEveryMs;
    logger.warn({ error }, "the status of the job can not be written");
    alarm(`the status of the job can not be written, what muster status shows is old: ${messageOf(error)}`);
  }
}
