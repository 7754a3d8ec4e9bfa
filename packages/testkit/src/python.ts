/** The Python of this machine, for tests that need what not every one has. */
import { spawnSync } from "node:child_process";

/** The first of the `python3` on the path and the system's own that runs these lines; `undefined` where none does. Importing PyTorch takes a second or two. */
export function pythonThatRuns(lines: string): string | undefined {
  return ["python3", "/usr/bin/python3"].find((name) => spawnSync(name, ["-c", lines]).status === 0);
}
