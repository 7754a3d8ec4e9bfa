import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { root } from "./paths.mjs";

/**
 * What `muster run` gets: the job file comes first when the user names one, else the example job; the rest goes on as it is.
 *
 * @param {readonly string[]} args - The user's.
 * @param {string} folder - Where the user typed them.
 * @returns {readonly string[]}
 */
export function runArguments(args, folder) {
  const [first, ...rest] = args;
  if (!first?.endsWith(".toml")) return [join(root, "jobs/dates.toml"), ...args];
  const typedThere = resolve(folder, first);
  return [existsSync(typedThere) ? typedThere : resolve(root, first), ...rest];
}
