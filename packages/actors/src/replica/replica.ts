/**
 * A replica's process: one incarnation after another. An incarnation registers, works, and leaves; one that was evicted comes back
 * as a new one, with nothing of the old left.
 */
import { Incarnation } from "./incarnation.ts";
import type { ReplicaEnd, ReplicaOptions, Role } from "./work.ts";

/** A running replica. */
export interface Replica {
  /** Asks it to leave: it hands its work back and waits to be released. */
  stop(reason: string): void;
  readonly ended: Promise<ReplicaEnd>;
}

/** Who lived so long was not evicted by another process that has its name. */
const goodLifeMs = 10_000;
const pauseMaxMs = 5_000;
/** How long a life that was told to stop may still take to begin: a broker that takes connections and never answers is not waited for. */
const beginMs = 2_000;

/** Pause before the next life, after so many short ones in a row: two processes of one name evict each other, and must not do so without end. */
export function comebackDelayMs(shortLives: number): number {
  return shortLives <= 1 ? 0 : Math.min(pauseMaxMs, 250 * 2 ** (shortLives - 2));
}

/** Runs a replica until it leaves for good. A fenced incarnation is followed by a new one. */
export function runReplica(role: Role, options: ReplicaOptions): Replica {
  const { clock, logger } = options.environment;
  let stopping: string | null = null;
  let current: Incarnation | null = null;
  let wake = (): void => {};
  const pause = (delayMs: number): Promise<void> =>
    new Promise((resolve) => {
      const cancel = clock.after(delayMs, resolve);
      wake = () => {
        cancel();
        resolve();
      };
    });
  let tell = (): void => {};
  const told = new Promise<void>((resolve) => {
    tell = resolve;
  });
  /** `null` when it was told to stop before it began: nobody has heard of it. */
  const begin = async (): Promise<Incarnation | null> => {
    let isOver = false;
    const beginning = Incarnation.start(role, options).then((incarnation) => {
      if (isOver) incarnation.stop("it began too late");
      isOver = true;
      return incarnation;
    });
    const late = told.then(
      () =>
        new Promise<null>((resolve) => {
          if (!isOver) clock.after(beginMs, () => resolve(null));
        }),
    );
    const begun = await Promise.race([beginning, late]);
    isOver = true;
    return begun;
  };
  const live = async (): Promise<ReplicaEnd> => {
    for (let shortLives = 0; ; ) {
      const bornMs = clock.now();
      current = await begin();
      if (!current) return { outcome: "left", reason: `${stopping}, before it could register` };
      if (stopping !== null) current.stop(stopping);
      const end = await current.ended;
      if (end.outcome !== "fenced" || stopping !== null) return end;
      // The other processes of its replica are of the same life, and that is over.
      if (options.environment.life !== undefined) return end;
      shortLives = clock.now() - bornMs < goodLifeMs ? shortLives + 1 : 0;
      const delayMs = comebackDelayMs(shortLives);
      logger.warn({ reason: end.reason, delayMs }, "fenced; coming back as a new incarnation");
      if (delayMs > 0) await pause(delayMs);
      if (stopping !== null) return end;
    }
  };
  return {
    ended: live(),
    stop(reason) {
      stopping = reason;
      tell();
      current?.stop(reason);
      wake();
    },
  };
}
