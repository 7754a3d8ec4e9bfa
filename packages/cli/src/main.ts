/** Runs the command line: faults become one message and an exit code. */
import { messageOf } from "@muster/base";
import { endWithoutTerminal, exitCodes, leaveMemoryOutOfDumps } from "@muster/runtime/process";
import { CommanderError } from "commander";
import { exitCodeOf } from "./exit-code.ts";
import { endWithOutput } from "./job/output.ts";
import { refuseFewFiles } from "./open-files.ts";
import { programFor } from "./program.ts";
import { cleanBlock } from "./report/text.ts";

/** Runs the command line and sets the exit code of the process. `argv` as in `process.argv`. */
export async function main(argv: readonly string[]): Promise<void> {
  leaveMemoryOutOfDumps(process.env);
  endWithoutTerminal();
  const codeOfLoss = endWithOutput();
  try {
    refuseFewFiles();
    await (await programFor(argv)).parseAsync([...argv]);
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.badInput;
      return;
    }
    process.stderr.write(`muster: ${cleanBlock(messageOf(error))}\n`);
    process.exitCode = exitCodeOf(error);
  } finally {
    process.exitCode ||= codeOfLoss();
  }
}
