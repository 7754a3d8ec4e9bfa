import { errors } from "./errors.ts";

/**
 * Runs tasks one after the other, in the order in which they came.
 *
 * @param waitingMax - Most tasks that may wait; one more is refused with MUSTER_ERR_CHECKPOINT_BUSY.
 */
export function serialQueue(waitingMax: number): <T>(task: () => Promise<T>) => Promise<T> {
  let waiting = 0;
  let last: Promise<unknown> = Promise.resolve();
  return async (task) => {
    if (waiting >= waitingMax) throw errors.CheckpointBusy({ waiting });
    waiting++;
    const run = last.then(() => {
      waiting--;
      return task();
    });
    // The next task waits for the end of this one, not for its success; whoever called it hears of its failure.
    last = run.then(
      () => {},
      () => {},
    );
    return run;
  };
}
