/** The program of a module's process: it loads one module and calls it, as it is told over an inherited socket (3). */
import { writeFileSync } from "node:fs";
import { Socket } from "node:net";
import { claimTrajectoryFault } from "../collect/trajectory-scope.ts";
import { ModuleService } from "./serve.ts";

const socket = new Socket({ fd: 3 });
const service = new ModuleService(socket);

// Whoever ends the process, knowing it or not, is named; what a module leaves behind and nobody waits for is its trajectory's.
process.on("exit", () => service.sayWho());
for (const event of ["uncaughtException", "unhandledRejection"] as const)
  process.on(event, (error: unknown) => {
    if (claimTrajectoryFault(error)) return;
    process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
    process.exit(1);
  });

// Where memory runs out, this process is ended, and not the sampler.
try {
  writeFileSync("/proc/self/oom_score_adj", "1000");
} catch (error) {
  process.stderr.write(`this process is no likelier to be ended than others where memory runs out: ${String(error)}\n`);
}

// Without a sampler there is nothing to do.
for (const event of ["end", "close", "error"] as const) socket.on(event, () => process.exit(0));
socket.on("data", (bytes: Buffer) => service.hear(bytes));
