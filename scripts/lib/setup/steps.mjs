/** What a set-up step is, and the steps in order. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "../paths.mjs";
import { commandLinkStep } from "./command-link.mjs";
import { dependenciesStep } from "./dependencies.mjs";
import { nativeBuildStep } from "./native-build.mjs";
import { natsServerStep } from "./nats-server.mjs";
import { packageManagerStep } from "./package-manager.mjs";
import { typescriptBuildStep } from "./typescript-build.mjs";

/**
 * @typedef {object} StepContext
 * @property {NodeJS.ProcessEnv} environment - For the commands of the step.
 * @property {(command: string, args: readonly string[], options: { cwd: string, env?: NodeJS.ProcessEnv, timeoutMs?: number }) => Promise<{ code: number, tail: string }>} run -
 *   Runs a command into the set-up log.
 */

/**
 * @typedef {object} Step
 * @property {string} name - Its key in the stamp file.
 * @property {string} label - What people read.
 * @property {() => string} [fingerprint] - Changes when the step has to be done again; without one its presence alone decides.
 * @property {(environment: NodeJS.ProcessEnv) => boolean} isPresent - True when its result is there; cheap.
 * @property {(context: StepContext) => Promise<void>} run - Does it, so that an interruption at any moment leaves nothing half made in place.
 */

/**
 * The steps that this checkout needs, in order.
 *
 * @param {"everything" | "tools"} scope - `tools` is what reads the sources: compiler, linter, test runner.
 * @returns {readonly Step[]}
 */
export function setupSteps(scope) {
  const tools = [packageManagerStep, dependenciesStep];
  if (scope === "tools") return tools;
  const native = existsSync(join(root, "native/CMakeLists.txt")) ? [nativeBuildStep] : [];
  return [...tools, ...native, natsServerStep, typescriptBuildStep, commandLinkStep];
}
