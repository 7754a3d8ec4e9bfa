/** A module of a job, tried in a process of its own, with limits: what it throws, prints or never ends stays there. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { messageOf } from "@muster/base";

/** Time for a module to be imported, and to answer what it is asked. */
const answerMs = 20_000;

/** Memory that it may take meanwhile. */
const megabytes = 1_024;

/** What is asked of a module: whether it has a reward or a generate function, or what it is as a task. */
type ModuleUse = "reward" | "generate" | "task";

/** What was found, or what is wrong. */
export type ModuleAnswer = { readonly found: unknown } | { readonly fault: string };

/** Asks a module by absolute path. `given` is for the process that tries it. */
export async function askModule(path: string, use: ModuleUse, given: unknown = null): Promise<ModuleAnswer> {
  const child = fork(
    fileURLToPath(new URL("./import-module.js", import.meta.url)),
    [path, use, JSON.stringify(given)],
    {
      execArgv: [`--max-old-space-size=${megabytes}`],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    },
  );
  let late: NodeJS.Timeout | undefined;
  try {
    return await new Promise<ModuleAnswer>((resolve) => {
      const fault = (text: string): void => resolve({ fault: text });
      const doing = use === "task" ? `asking ${path} for prompts` : `importing ${path}`;
      late = setTimeout(() => fault(`${doing} did not end within ${answerMs / 1_000} s`), answerMs);
      child.once("message", (answer) => resolve(answer as ModuleAnswer));
      child.once("error", (error) => fault(`${path} can not be tried: ${messageOf(error)}`));
      // Not at its exit: what it has said may be read after that.
      child.once("close", (code, signal) => fault(`${doing} ended the process with ${signal ?? `exit code ${code}`}`));
    });
  } finally {
    clearTimeout(late);
    child.kill("SIGKILL");
  }
}
