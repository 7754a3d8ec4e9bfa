/** Runs a command as the head of a process group of its own, so that a deadline or Ctrl-C ends the whole tree and leaves no orphans. */
import { spawn } from "node:child_process";

const tailLines = 30;
const killAfterMs = 5_000;

/**
 * @typedef {object} RunOptions
 * @property {string} cwd
 * @property {AbortSignal} signal - Ends the command; the promise then rejects with its reason.
 * @property {NodeJS.ProcessEnv} [env] - The environment; by default this process's own.
 * @property {number} [timeoutMs] - Deadline; by default 20 minutes.
 * @property {"inherit" | ((chunk: Buffer) => void)} [output] - Where output goes besides the tail; `inherit` shows it and keeps no tail.
 */

/**
 * Runs a command to its end.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {RunOptions} options
 * @returns {Promise<{ code: number, tail: string, timedOut: boolean }>} Exit code (127 when it could not be started) and the last lines it wrote.
 */
export async function runCommand(command, args, options) {
  const { cwd, signal, env = process.env, timeoutMs = 20 * 60_000, output } = options;
  signal.throwIfAborted();
  const child = spawn(command, args, {
    cwd,
    env,
    detached: true,
    stdio: output === "inherit" ? ["ignore", "inherit", "inherit"] : ["ignore", "pipe", "pipe"],
  });
  const tail = tailOf(child, typeof output === "function" ? output : () => {});
  const stop = () => stopGroup(child);
  signal.addEventListener("abort", stop, { once: true });
  let timedOut = false;
  const deadline = setTimeout(() => {
    timedOut = true;
    stop();
  }, timeoutMs);
  try {
    const code = await exitOf(child);
    signal.throwIfAborted();
    return { code, timedOut, tail: timedOut ? `${tail()}\nended after ${timeoutMs / 60_000} min: too slow` : tail() };
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener("abort", stop);
  }
}

/** @param {import("node:child_process").ChildProcess} child @returns {Promise<number>} */
function exitOf(child) {
  return new Promise((resolve) => {
    child.once("error", () => resolve(127));
    child.once("close", (code) => resolve(code ?? 1));
  });
}

/** @param {import("node:child_process").ChildProcess} child @param {(chunk: Buffer) => void} sink */
function tailOf(child, sink) {
  let text = "";
  const take = (/** @type {Buffer} */ chunk) => {
    sink(chunk);
    text = (text + chunk.toString("utf8")).slice(-16_384);
  };
  child.stdout?.on("data", take);
  child.stderr?.on("data", take);
  child.once("error", (error) => take(Buffer.from(error.message)));
  return () => text.trimEnd().split("\n").slice(-tailLines).join("\n");
}

/** Asks the group to end, and ends it after a grace time. @param {import("node:child_process").ChildProcess} child */
function stopGroup(child) {
  signalGroup(child, "SIGTERM");
  const timer = setTimeout(() => signalGroup(child, "SIGKILL"), killAfterMs);
  child.once("close", () => clearTimeout(timer));
}

/** @param {import("node:child_process").ChildProcess} child @param {NodeJS.Signals} name */
function signalGroup(child, name) {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    // The group is gone already: that is what was asked for.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "ESRCH") throw error;
  }
}
