/** What a process needs before anything else is loaded: the entry point of those who start it. */
export { leaveMemoryOutOfDumps } from "./lifecycle/core-dumps.ts";
export { type ExitCode, exitCodes } from "./lifecycle/exit-codes.ts";
export { endWithoutTerminal, hasTerminal } from "./lifecycle/hang-up.ts";
