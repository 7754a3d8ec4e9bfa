/** How many files this process may have open: with too few, Node.js says that its own packages are missing. */
import { existsSync, readFileSync } from "node:fs";
import { errors } from "./errors.ts";

const limitsFile = "/proc/self/limits";

/** Open files that a small job needs in each of its processes. */
const filesMin = 256;

/**
 * Refuses a limit that no command can work with.
 *
 * @param limits - The limits of the process, as `/proc/self/limits` tells them; empty on a host that does not.
 * @throws MUSTER_ERR_FILES_FEW
 */
export function refuseFewFiles(limits = existsSync(limitsFile) ? readFileSync(limitsFile, "utf8") : ""): void {
  const said = /^Max open files +(\d+) /m.exec(limits)?.[1];
  if (said !== undefined && Number(said) < filesMin) throw errors.FilesFew({ limit: said, min: filesMin });
}
