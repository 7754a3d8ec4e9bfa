/** `muster` as a command: a link in `.muster/bin`, which whoever wants it puts on the path. */
import { mkdirSync, realpathSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { musterDirectory, root } from "../paths.mjs";

const program = join(root, "packages/cli/bin/muster.mjs");

/** The link. */
export const commandLink = join(musterDirectory, "bin/muster");

/** @type {import("./steps.mjs").Step} */
export const commandLinkStep = {
  name: "commandLink",
  label: "the command muster",
  isPresent: () => realPathOf(commandLink) === realPathOf(program),
  async run() {
    mkdirSync(dirname(commandLink), { recursive: true });
    const fresh = `${commandLink}.${process.pid}`;
    rmSync(fresh, { force: true });
    symlinkSync(program, fresh);
    renameSync(fresh, commandLink);
  },
};

/**
 * How to call it by name; nothing where that works already.
 *
 * @param {NodeJS.ProcessEnv} environment
 * @returns {string | null}
 */
export function commandHint({ PATH = "" }) {
  const found = PATH.split(delimiter).find((folder) => realPathOf(join(folder, "muster")) !== null);
  if (found !== undefined && realPathOf(join(found, "muster")) === realPathOf(program)) return null;
  return `to call muster by name: export PATH="${dirname(commandLink)}:$PATH"`;
}

/** @param {string} path @returns {string | null} */
function realPathOf(path) {
  try {
    return realpathSync(path);
  } catch (error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EACCES") return null;
    throw error;
  }
}
