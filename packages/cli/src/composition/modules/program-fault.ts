/** Whether the program of a reward starts and ends as it should: with no question at all it has nothing to do. */
import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { messageOf } from "@muster/base";

/** Time to start, and to end because its input has ended: it may import much. */
const tryMs = 60_000;

/** Most of what it says that is quoted, in characters. */
const quotedMax = 1_000;

/** Why a program can not be the reward of a job; `null` when it can. */
export async function programFault(path: string): Promise<string | null> {
  const child = spawn(path, [], { cwd: dirname(path), stdio: ["pipe", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-quotedMax);
  });
  // Of a broken pipe the end of the process says more.
  child.stdin.on("error", () => {});
  child.stdin.end();
  let late: NodeJS.Timeout | undefined;
  try {
    return await new Promise<string | null>((resolve) => {
      const fault = (reason: string): void =>
        resolve(`${path} ${reason}${said.trim() ? `; it said: ${said.trim()}` : ""}`);
      late = setTimeout(
        () => fault(`did not end within ${tryMs / 1_000} s after its input had ended: read lines until there are none`),
        tryMs,
      );
      child.once("error", (error) => fault(`can not be started: ${messageOf(error)}`));
      child.once("close", (code, signal) =>
        code === 0 ? resolve(null) : fault(`ended with ${signal ?? `exit code ${code}`} before anything was asked`),
      );
    });
  } finally {
    clearTimeout(late);
    child.kill("SIGKILL");
  }
}
