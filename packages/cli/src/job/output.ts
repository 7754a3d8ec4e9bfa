/** Commands whose output goes nowhere, because its reader has left or there is no room for it: they end, those with work in order. */
import { getSystemErrorMap } from "node:util";
import { type ExitCode, exitCodes } from "@muster/runtime/process";
import { errors } from "../errors.ts";

/** Work that is ended in order. */
const works = new Set<() => void>();

/** Has the work told when its output is lost, in place of the end of the process at once. @returns Takes that back. */
export function whenOutputIsLost(end: () => void): () => void {
  works.add(end);
  return () => void works.delete(end);
}

/** `muster watch | head` is over when head has enough, which is no fault; a disk that is full is one, and is said. @returns Gives the code of the loss. */
export function endWithOutput(): () => ExitCode {
  let isLost = false;
  let code: ExitCode = exitCodes.ok;
  const streams = { "standard output": process.stdout, "standard error": process.stderr };
  for (const [stream, to] of Object.entries(streams))
    to.on("error", (error: NodeJS.ErrnoException) => {
      // What is said on the way to the end is lost as well.
      if (isLost) return;
      isLost = true;
      if (error.code !== "EPIPE") {
        code = exitCodes.failed;
        process.stderr.write(`muster: ${lossOf(stream, error).message}\n`);
      }
      // A command that has failed already has said so with its code.
      if (works.size === 0) process.exit(process.exitCode || code);
      for (const end of works) end();
    });
  return () => code;
}

function lossOf(stream: string, error: NodeJS.ErrnoException): Error {
  const [, reason = error.message] = getSystemErrorMap().get(error.errno ?? 0) ?? [];
  return errors.OutputLost({ stream, reason }, error);
}
