/**
 * Keeps the local server of a run running. Everything acknowledged is in its store, and every connection comes back by itself, so the end of the
 * server is an outage and not the end of the job; neither is a full disk, after which its store takes nothing until it is started again.
 */
import { type Clock, every, type Logger, messageOf } from "@muster/base";
import type { LocalServer } from "@muster/transport";
import { roomIn } from "./disk-watch.ts";

/** What a keeper is made from. */
export interface ServerKeeperOptions {
  /** Folder of the server. */
  readonly directory: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The server ended, or its store has to be opened anew; it is started again on the same port and store. */
  readonly onRestart: (detail: string) => unknown;
  /** The server can not be kept running. */
  readonly onGivenUp: (detail: string) => void;
}

/** A server that lived so long was well; its end is a new misfortune and not one more of a row. */
const goodLifeMs = 10_000;
const rowMax = 5;

const lookEveryMs = 1_000;

/** Keeps one server running until it is stopped. */
export class ServerKeeper {
  readonly #options: ServerKeeperOptions;
  #server: Pick<LocalServer, "restart" | "storeTrouble"> | null = null;
  #startedMs: number;
  #row = 0;
  #isStopped = false;
  #isStarting = false;
  #wasFull = false;
  #stopLooking = (): void => {};
  #endPause = (): void => {};
  #work: Promise<void> = Promise.resolve();

  constructor(options: ServerKeeperOptions) {
    this.#options = options;
    this.#startedMs = options.clock.now();
  }

  /** Keeps this server from now on. */
  keep(server: Pick<LocalServer, "restart" | "storeTrouble">): void {
    this.#server = server;
    this.#stopLooking = every(this.#options.clock, lookEveryMs, () => void this.#look());
  }

  /** The server ended, or is of no more use; it is started again. */
  ended(detail: string): void {
    const { clock, logger, onGivenUp, onRestart } = this.#options;
    this.#row = clock.now() - this.#startedMs < goodLifeMs ? this.#row + 1 : 0;
    logger.warn({ detail, row: this.#row }, "the broker ended");
    if (this.#isStopped) return;
    if (this.#row > rowMax) {
      onGivenUp(`${detail} ${this.#row} times in a row`);
      return;
    }
    onRestart(detail);
    this.#work = this.#restart();
  }

  /** No server is started from now on. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopLooking();
    this.#endPause();
    await this.#work;
  }

  async #look(): Promise<void> {
    const room = roomIn(this.#options.directory);
    if (room === "none") this.#wasFull = true;
    if (room !== "enough" || this.#isStarting) return;
    const trouble = await this.#trouble();
    if ((trouble === null && !this.#wasFull) || this.#isStarting || this.#isStopped) return;
    this.#wasFull = false;
    this.ended(`nats-server takes nothing more: ${trouble ?? "its disk was full"}`);
  }

  async #trouble(): Promise<string | null> {
    try {
      return (await this.#server?.storeTrouble()) ?? null;
    } catch (error) {
      this.#options.logger.warn({ error }, "the broker's log could not be read");
      return null;
    }
  }

  /** Waits, unless nothing is kept any more. */
  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.#options.clock.after(ms, resolve);
      this.#endPause = () => {
        cancel();
        resolve();
      };
    });
  }

  async #restart(): Promise<void> {
    const { clock, logger, onGivenUp, directory } = this.#options;
    this.#isStarting = true;
    for (let tries = 0; !this.#isStopped; tries++) {
      // The first try is at once; a port that is not free yet needs a moment, and a full disk somebody who makes room.
      if (tries > 0) await this.#pause(100 * 2 ** tries);
      while (!this.#isStopped && roomIn(directory) === "none") await this.#pause(lookEveryMs);
      if (this.#isStopped) return;
      this.#startedMs = clock.now();
      try {
        await this.#server?.restart();
        this.#isStarting = false;
        this.#wasFull = false;
        logger.info({}, "the broker runs again");
        return;
      } catch (error) {
        logger.error({ error }, "the broker could not be started again");
        if (tries >= rowMax) {
          onGivenUp(`nats-server could not be started again: ${messageOf(error)}`);
          return;
        }
      }
    }
  }
}
