/** Runs a command in the place of this process: same terminal, same signals, same exit code. */
import { spawn } from "node:child_process";
import { constants } from "node:os";

/**
 * Runs a command to its end.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<number>} Its exit code; 128 plus the number of the signal that ended it.
 */
export function runForeground(command, args, { cwd, env }) {
  const child = spawn(command, args, { cwd, env, stdio: "inherit" });
  // Ctrl-C in a terminal reaches the child by itself; a second copy would mean "at once".
  const passOn = (/** @type {NodeJS.Signals} */ name) => {
    if (name !== "SIGINT" || !process.stdin.isTTY) child.kill(name);
  };
  const names = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);
  for (const name of names) process.on(name, passOn);
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
  });
  return ended.finally(() => {
    for (const name of names) process.off(name, passOn);
  });
}
