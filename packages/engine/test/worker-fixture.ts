/** Workers of the tests: those of the examples in Python, and scorers that misbehave. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { ScorerConfig } from "@muster/protocol";

/** A file of the repository. */
export const pathOf = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** True where workers in Python can be tried. */
export const hasPython = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status === 0;

/** Why they are not. */
export const noPython = "python3 of 3.11 or newer is not installed";

/** Table of a worker of the examples in Python. */
export const pythonWorker = (example: string) => ({
  command: `python3 '${pathOf(`examples/${example}`)}'`,
  environment: `'PYTHONPATH=${pathOf("python")}' PYTHONDONTWRITEBYTECODE=1`,
});

/** Command of a program of `support/`, which does what its mode names. */
export const supportCommand = (program: string, mode: string): string =>
  `'${process.execPath}' '${fileURLToPath(new URL(`./support/${program}`, import.meta.url))}' ${mode}`;

/** Table of such a program that is a scorer of a job. */
export function scorerConfigOf(program: string, mode: string, settings: Partial<ScorerConfig> = {}): ScorerConfig {
  return {
    ...{ command: supportCommand(program, mode), directory: process.cwd(), environment: null, build: null },
    ...{ batch: 64, startMs: 10_000, callMs: 10_000, silenceMs: 10_000, memoryBytes: 0, arenaBytes: 2 ** 20 },
    ...settings,
  };
}
