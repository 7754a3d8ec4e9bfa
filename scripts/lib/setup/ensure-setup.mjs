/** Brings a checkout into a state in which everything runs; does nothing, quickly, when it is in it already. */
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { childEnvironment } from "../child-environment.mjs";
import { musterDirectory } from "../paths.mjs";
import { runCommand } from "../run-command.mjs";
import { commandHint, commandLinkStep } from "./command-link.mjs";
import { withLock } from "./lock.mjs";
import { findNatsServer } from "./nats-server.mjs";
import { checkNodeVersion } from "./node-version.mjs";
import { StepLine } from "./progress.mjs";
import { Stamp } from "./stamp.mjs";
import { setupSteps } from "./steps.mjs";

/** Everything that the set-up's commands wrote. */
export const logPath = join(musterDirectory, "setup.log");

const stampPath = join(musterDirectory, "setup.json");
const lockPath = join(musterDirectory, "setup.lock");

/**
 * @typedef {object} SetupOptions
 * @property {AbortSignal} signal
 * @property {boolean} [force] - Does every step again, whatever the stamp says.
 * @property {"everything" | "tools"} [scope] - Which steps; by default all of them.
 */

/**
 * Does the steps whose inputs changed. All talk goes to standard error, one line per step.
 *
 * @param {SetupOptions} options
 * @returns {Promise<{ natsServer: string | null, stepsDone: number }>} The nats-server to run (null when MUSTER_NATS_URL names a
 *   running one) and how many steps were done.
 * @throws {import("./setup-error.mjs").SetupError} with the fix, when a step cannot be done.
 */
export async function ensureSetup({ signal, force = false, scope = "everything" }) {
  checkNodeVersion(process.versions.node);
  const environment = childEnvironment(process.env);
  const steps = setupSteps(scope);
  const pending = force || steps.some((step) => isPending(step, environment, Stamp.read(stampPath)));
  const lock = {
    path: lockPath,
    signal,
    onWait: (/** @type {number} */ pid) => say(`set-up: waiting for another one (pid ${pid})\n`),
  };
  const stepsDone = pending ? await withLock(lock, () => doSteps(steps, { environment, signal, force })) : 0;
  return { stepsDone, natsServer: environment.MUSTER_NATS_URL ? null : findNatsServer(environment) };
}

/** @param {import("./steps.mjs").Step} step @param {NodeJS.ProcessEnv} environment @param {Stamp} stamp */
function isPending({ name, fingerprint, isPresent }, environment, stamp) {
  return !isPresent(environment) || (fingerprint !== undefined && !stamp.isDone(name, fingerprint()));
}

/**
 * @param {readonly import("./steps.mjs").Step[]} steps
 * @param {{ environment: NodeJS.ProcessEnv, signal: AbortSignal, force: boolean }} options
 * @returns {Promise<number>} How many steps were done.
 */
async function doSteps(steps, { environment, signal, force }) {
  // Read again under the lock: another set-up may have done the work meanwhile.
  const stamp = force ? Stamp.empty(stampPath) : Stamp.read(stampPath);
  const log = openSync(logPath, "w");
  /** @type {import("./steps.mjs").StepContext["run"]} */
  const run = (command, args, options) => {
    writeSync(log, `\n$ ${command} ${args.join(" ")}\n`);
    return runCommand(command, args, {
      env: environment,
      ...options,
      signal,
      output: (chunk) => {
        writeSync(log, chunk);
        line?.take(chunk);
      },
    });
  };
  /** @type {StepLine | null} */
  let line = null;
  let stepsDone = 0;
  try {
    for (const step of steps.filter((candidate) => isPending(candidate, environment, stamp))) {
      const fingerprint = step.fingerprint?.();
      line = lineOf(step.label);
      await timed(line, () => step.run({ environment, run }));
      if (fingerprint !== undefined) stamp.markDone(step.name, fingerprint);
      stepsDone += 1;
    }
    const hint = steps.includes(commandLinkStep) && stepsDone > 0 ? commandHint(environment) : null;
    if (hint !== null) say(`set-up: ${hint}\n`);
    return stepsDone;
  } finally {
    closeSync(log);
  }
}

/** @param {string} label */
function lineOf(label) {
  const isTerminal = process.stderr.isTTY === true && process.env.TERM !== "dumb";
  return new StepLine({ say, label: `set-up: ${label}`, isTerminal, now: () => performance.now() });
}

/** One line: what is done, how far it is, then how long it took. @param {StepLine} line @param {() => Promise<void>} work */
async function timed(line, work) {
  const startedAtMs = performance.now();
  try {
    await work();
  } catch (error) {
    line.end("failed");
    throw error;
  }
  line.end(`${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
}

/** @param {string} text */
function say(text) {
  process.stderr.write(text);
}
