/** All commands of `muster`, ready to parse a command line. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { addActorCommands, isReplica } from "./commands/actors.ts";
import { addBarrierCommand } from "./commands/barrier.ts";
import { addBenchCommands } from "./commands/bench.ts";
import { addBrokerCommand } from "./commands/broker.ts";
import { addCertifyCommand } from "./commands/certify.ts";
import { addChangeCommand } from "./commands/change.ts";
import { addChaosCommand } from "./commands/chaos.ts";
import { addCheckCommand } from "./commands/check.ts";
import { addCompletionCommand } from "./commands/completion.ts";
import { addConfigCommands } from "./commands/config.ts";
import { addCredentialsCommand } from "./commands/credentials.ts";
import { addDashboardCommand } from "./commands/dashboard.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addDrainCommand } from "./commands/drain.ts";
import { addExportCommand } from "./commands/export.ts";
import { addFleetCommands } from "./commands/fleet.ts";
import { addGatewayCommand } from "./commands/gateway.ts";
import { addHelp } from "./commands/help.ts";
import { addJobsCommand } from "./commands/jobs.ts";
import { addReportCommand } from "./commands/report.ts";
import { addRouterCommand } from "./commands/router.ts";
import { addRunCommand } from "./commands/run.ts";
import { addSamplesCommand } from "./commands/samples.ts";
import { addSimCommand } from "./commands/sim.ts";
import { addStatusCommand } from "./commands/status.ts";
import { addStopCommand } from "./commands/stop.ts";
import { addTrajectoriesCommands } from "./commands/trajectories.ts";
import { addTypesCommand } from "./commands/types.ts";
import { addWatchCommand } from "./commands/watch.ts";
import { addWorkerCommands } from "./commands/worker.ts";
import { endWhenStuck } from "./job/last-resort.ts";

/** Makes the program. It throws commander's errors instead of ending the process. */
export function createProgram(): Command {
  const program = new Command("muster")
    .description("Elastic, fault-tolerant reinforcement-learning post-training of language models")
    .version(versionOf())
    .exitOverride()
    .hook("preAction", (_, command) => {
      // A step of a replica may compute for longer; whoever started it ends it when its grace is over.
      if (!isReplica(command.name())) endWhenStuck(["SIGTERM", "SIGINT", "SIGHUP"]);
    });
  addRunCommand(program);
  addStatusCommand(program);
  addWatchCommand(program);
  addDashboardCommand(program);
  addSamplesCommand(program);
  addReportCommand(program);
  addJobsCommand(program);
  addCheckCommand(program);
  addExportCommand(program);
  addTrajectoriesCommands(program);
  addStopCommand(program);
  addChangeCommand(program);
  addDrainCommand(program);
  addFleetCommands(program);
  addActorCommands(program);
  addConfigCommands(program);
  addTypesCommand(program);
  addBarrierCommand(program);
  addCredentialsCommand(program);
  addBrokerCommand(program);
  addGatewayCommand(program);
  addRouterCommand(program);
  addDoctorCommand(program);
  addWorkerCommands(program);
  addSimCommand(program);
  addChaosCommand(program);
  addCertifyCommand(program);
  addBenchCommands(program);
  addCompletionCommand(program);
  addHelp(program);
  return program;
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  return version;
}
