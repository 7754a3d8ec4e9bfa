/** Ctrl-C and its relatives as one abort signal, so that every wait ends and every `finally` runs. */

const exitCodeOf = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** Says that a signal ended the work; `exitCode` is what the shell expects. */
export class Interrupted extends Error {
  /** @param {keyof typeof exitCodeOf} name */
  constructor(name) {
    super(`interrupted by ${name}`);
    this.exitCode = exitCodeOf[name];
  }
}

/**
 * Runs work under a signal that aborts on SIGINT, SIGTERM and SIGHUP.
 *
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} work - Must end soon after the signal aborts.
 * @returns {Promise<T>}
 */
export async function untilInterrupted(work) {
  const controller = new AbortController();
  const names = /** @type {(keyof typeof exitCodeOf)[]} */ (Object.keys(exitCodeOf));
  const handlers = names.map((name) => /** @type {const} */ ([name, () => controller.abort(new Interrupted(name))]));
  for (const [name, handler] of handlers) process.on(name, handler);
  try {
    return await work(controller.signal);
  } finally {
    for (const [name, handler] of handlers) process.off(name, handler);
  }
}
