/** The Python of this machine, for tests that need what not every one has. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** What `scripts/get-torch.sh .muster/torch` fetches. */
const fetched = fileURLToPath(new URL("../../../.muster/torch/python3", import.meta.url));

/**
 * The first of the `python3` on the path, the system's own and the one that was fetched for tests that runs these lines; `undefined` where none
 * does. Importing PyTorch takes a second or two.
 */
export function pythonThatRuns(lines: string): string | undefined {
  return ["python3", "/usr/bin/python3", fetched].find((name) => spawnSync(name, ["-c", lines]).status === 0);
}
