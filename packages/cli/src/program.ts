/** All commands of `muster`, ready to parse a command line. */
import { readFileSync } from "node:fs";
import type { ReplicaRole } from "@muster/protocol";
import { Command, Help } from "commander";
import { addHelp } from "./commands/help.ts";
import { type CommandName, commandNames, isListed, isReplica, listed, usageOf } from "./commands/list.ts";

type Add = (program: Command) => void;
type FleetCommand = keyof typeof import("./commands/fleet.ts")["addFleetCommand"];

const fleet = (name: FleetCommand) => async (): Promise<Add> =>
  (await import("./commands/fleet.ts")).addFleetCommand[name];

const replica = async (role: ReplicaRole): Promise<Add> => {
  const { addReplicaCommand } = await import("./commands/replicas.ts");
  return (program) => addReplicaCommand(program, role);
};

/** The file of each command, with all that it needs. A process loads the one that its command line names. */
const files: Readonly<Record<Exclude<CommandName, ReplicaRole>, () => Promise<Add>>> = {
  run: async () => (await import("./commands/run.ts")).addRunCommand,
  status: async () => (await import("./commands/status.ts")).addStatusCommand,
  watch: async () => (await import("./commands/watch.ts")).addWatchCommand,
  dashboard: async () => (await import("./commands/dashboard.ts")).addDashboardCommand,
  samples: async () => (await import("./commands/samples.ts")).addSamplesCommand,
  report: async () => (await import("./commands/report.ts")).addReportCommand,
  jobs: async () => (await import("./commands/jobs.ts")).addJobsCommand,
  check: async () => (await import("./commands/check.ts")).addCheckCommand,
  export: async () => (await import("./commands/export.ts")).addExportCommand,
  trajectories: async () => (await import("./commands/trajectories.ts")).addTrajectoriesCommands,
  stop: async () => (await import("./commands/stop.ts")).addStopCommand,
  change: async () => (await import("./commands/change.ts")).addChangeCommand,
  drain: async () => (await import("./commands/drain.ts")).addDrainCommand,
  scale: fleet("scale"),
  cordon: fleet("cordon"),
  uncordon: fleet("uncordon"),
  replace: fleet("replace"),
  kill: fleet("kill"),
  cancel: fleet("cancel"),
  send: fleet("send"),
  node: async () => (await import("./commands/node.ts")).addNodeCommand,
  controller: async () => (await import("./commands/controller.ts")).addControllerCommand,
  config: async () => (await import("./commands/config.ts")).addConfigCommands,
  types: async () => (await import("./commands/types.ts")).addTypesCommand,
  barrier: async () => (await import("./commands/barrier.ts")).addBarrierCommand,
  credentials: async () => (await import("./commands/credentials.ts")).addCredentialsCommand,
  broker: async () => (await import("./commands/broker.ts")).addBrokerCommand,
  gateway: async () => (await import("./commands/gateway.ts")).addGatewayCommand,
  router: async () => (await import("./commands/router.ts")).addRouterCommand,
  doctor: async () => (await import("./commands/doctor.ts")).addDoctorCommand,
  worker: async () => (await import("./commands/worker.ts")).addWorkerCommands,
  sim: async () => (await import("./commands/sim.ts")).addSimCommand,
  chaos: async () => (await import("./commands/chaos.ts")).addChaosCommand,
  certify: async () => (await import("./commands/certify.ts")).addCertifyCommand,
  bench: async () => (await import("./commands/bench.ts")).addBenchCommands,
  completion: async () => (await import("./commands/completion.ts")).addCompletionCommand,
};

/** Makes the program with all commands. It throws commander's errors instead of ending the process. */
export async function createProgram(): Promise<Command> {
  return await programWith(commandNames);
}

/** Makes the program for one command line: of the commands that it does not name there is only what help lists. */
export async function programFor(argv: readonly string[]): Promise<Command> {
  const [first, second] = argv.slice(2).filter((word) => !word.startsWith("-"));
  const name = (first === "help" ? second : first) ?? "";
  // A completion script has all of them.
  if (name === "completion") return await createProgram();
  return await programWith(isListed(name) ? [name] : []);
}

async function programWith(names: readonly CommandName[]): Promise<Command> {
  const defaults = new Help();
  const program: Command = new Command("muster")
    .description("Elastic, fault-tolerant reinforcement-learning post-training of language models")
    .version(versionOf())
    .exitOverride()
    .configureHelp({
      subcommandTerm: (command) =>
        command.parent === program && isListed(command.name())
          ? usageOf(command.name() as CommandName)
          : defaults.subcommandTerm(command),
    })
    .hook("preAction", async (_, command) => {
      // A step of a replica may compute for longer; whoever started it ends it when its grace is over.
      if (isReplica(command.name())) return;
      const { endWhenStuck } = await import("./job/last-resort.ts");
      endWhenStuck(["SIGTERM", "SIGINT", "SIGHUP"]);
    });
  for (const name of commandNames) {
    if (!names.includes(name)) listed(program, name);
    else (await (isReplica(name) ? replica(name) : files[name]()))(program);
  }
  addHelp(program);
  return program;
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  return version;
}
