/** What somebody has opened and must close: once, all of it, whatever fails on the way and however late it comes. */
import type { Logger } from "@muster/base";

/** Ends one thing. */
export type Closer = () => Promise<void> | void;

/** A set of things that are open. */
export class Holdings {
  readonly #logger: Logger;
  readonly #closers: Closer[] = [];
  #isClosed = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Takes a thing over; after {@link Holdings.closeAll} it is closed at once. */
  async hold(close: Closer): Promise<void> {
    if (this.#isClosed) await this.#end(close);
    else this.#closers.push(close);
  }

  /** Closes everything in the order in which it came. One that can not be closed keeps no other open. */
  async closeAll(): Promise<void> {
    this.#isClosed = true;
    for (const close of this.#closers.splice(0)) await this.#end(close);
  }

  async #end(close: Closer): Promise<void> {
    try {
      await close();
    } catch (error) {
      this.#logger.warn({ error }, "something did not close in order");
    }
  }
}
