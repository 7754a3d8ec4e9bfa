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
import { progressTeller } from "./progress.mjs";
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
        tellProgress(chunk);
      },
    });
  };
  let tellProgress = progressTeller(say);
  let stepsDone = 0;
  try {
    for (const step of steps.filter((candidate) => isPending(candidate, environment, stamp))) {
      const fingerprint = step.fingerprint?.();
      tellProgress = progressTeller(say);
      await timed(step.label, () => step.run({ environment, run }));
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

/** One line: what is done, then how long it took. @param {string} label @param {() => Promise<void>} work */
async function timed(label, work) {
  const startedAtMs = performance.now();
  say(`set-up: ${label} … `);
  try {
    await work();
  } catch (error) {
    say("failed\n");
    throw error;
  }
  say(`${((performance.now() - startedAtMs) / 1000).toFixed(1)} s\n`);
}

/** @param {string} text */
function say(text) {
  process.stderr.write(text);
}
