import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";

/**
 * Finds a command as a shell does.
 *
 * @param {string} command - A name to look for on PATH, or a path.
 * @param {NodeJS.ProcessEnv} environment
 * @returns {string | null} Absolute path of the executable, or null.
 */
export function which(command, environment) {
  if (command.includes("/")) return isExecutable(command) ? resolve(command) : null;
  const folders = (environment.PATH ?? "").split(delimiter).filter(isAbsolute);
  return folders.map((folder) => join(folder, command)).find(isExecutable) ?? null;
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    // Not there or not ours to run: not a candidate, which is the answer and no failure.
    return false;
  }
}
