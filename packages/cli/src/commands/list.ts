/** The list of all commands, as `muster --help` shows it. Whatever else a command has is in its own file, which is loaded when it is called. */
import type { ReplicaRole } from "@muster/protocol";
import type { Command } from "commander";

/** A command of the list. */
interface Row {
  /** What follows its name, as in help; empty for nothing. */
  readonly takes: string;
  /** One line. */
  readonly says: string;
}

/** One for each role of replicas. */
const replicas = {
  policy: { takes: "[options]", says: "start a policy replica (trainer) and join a job" },
  rollout: { takes: "[options]", says: "start a rollout replica (sampler) and join a job" },
  checkpoint: { takes: "[options]", says: "start a checkpoint actor and join a job" },
} as const satisfies Readonly<Record<ReplicaRole, Row>>;

/** The commands by name, in the order of help. */
export const commandList = {
  run: { takes: "[options] [file]", says: "run a job on this machine, or on several, each actor its own process" },
  status: { takes: "[options]", says: "show a job: step, weights, mesh, ledger, members" },
  watch: { takes: "[options]", says: "follow the events of a job until it ends" },
  dashboard: { takes: "[options]", says: "show a job in the browser, with the commands of an operator" },
  samples: { takes: "[options]", says: "show prompts, responses and rewards of a job, the newest last" },
  report: { takes: "[options] [job]", says: "write the report of a run, while it goes on or afterwards" },
  jobs: { takes: "[options]", says: "list the runs of a folder, newest first" },
  check: {
    takes: "[options] [run]",
    says: "audit a run by its files: nothing lost, nothing trained twice, one digest per version",
  },
  export: {
    takes: "[options] <checkpoint>",
    says: "write a checkpoint as other programs load it: a Hugging Face folder, or a GGUF file for llama.cpp",
  },
  trajectories: { takes: "", says: "finished groups of a run as files, for a run that only updates" },
  stop: { takes: "[options]", says: "end a job after the step that runs: last checkpoint, then everybody leaves" },
  change: { takes: "[options] <settings...>", says: "change settings of a job from a step on" },
  drain: { takes: "[options] <replica-id>", says: "have a replica hand back its work and leave" },
  scale: { takes: "[options] <counts...>", says: "set how many replicas of a role the nodes run, e.g. rollout=4" },
  cordon: { takes: "[options] <id>", says: "keep new work away from a node or a replica" },
  uncordon: { takes: "[options] <id>", says: "let new work come again" },
  replace: { takes: "[options] <id>", says: "start a new replica, then have this one leave" },
  kill: { takes: "[options] <replica-id>", says: "send a signal to the process of a replica, through its node" },
  cancel: { takes: "[options] <command-id>", says: "take back a command that is not done yet" },
  send: { takes: "[options] <kind>", says: "send a command" },
  ...replicas,
  node: { takes: "[options]", says: "run the replicas that the controller assigns to this host" },
  controller: { takes: "[options]", says: "start the controller of a job, or take a job over" },
  config: { takes: "", says: "print or check the configuration of a job" },
  types: { takes: "", says: "print TypeScript declarations for modules of a job: tasks, rewards, generate functions" },
  barrier: { takes: "[options] <phase>", says: "wait in a script until all of its ranks have finished a phase" },
  credentials: {
    takes: "[options] <role...>",
    says: "write a connection file with the keys of some roles, or of one replica",
  },
  broker: { takes: "[options]", says: "run one nats-server for several jobs of this host, each with users of its own" },
  gateway: { takes: "[options]", says: "run the coordinator of the checkpoint service over HTTP" },
  router: {
    takes: "[options]",
    says: "one HTTP address for many inference engines: health, fences by weight version, retries",
  },
  doctor: { takes: "[options]", says: "check what this machine needs to run a job, and say what is missing" },
  worker: { takes: "", says: "try a worker: a trainer, sampler, reward or reference that is a program of one's own" },
  sim: { takes: "[options]", says: "simulate jobs with faults in virtual time and check every invariant" },
  chaos: {
    takes: "[options]",
    says: "kill, freeze and cut the processes of a real job by a seeded plan, and compare it with a quiet run",
  },
  certify: { takes: "[options] [file]", says: "prove which level of determinism a job has on this hardware" },
  bench: { takes: "", says: "measure how fast this machine moves weights and gradients" },
  completion: { takes: "<shell>", says: "print a completion script for a shell" },
} as const satisfies Readonly<Record<string, Row>>;

/** A command of `muster`. */
export type CommandName = keyof typeof commandList;

/** All names, in the order of help. */
export const commandNames = Object.keys(commandList) as readonly CommandName[];

/** Begins a command of the list: its file adds the arguments, the options and the action. */
export function listed(program: Command, name: CommandName): Command {
  const { says } = commandList[name];
  return program.command(name).summary(says).description(says);
}

/** What a command of the list takes, as its line in help has it: `export [options] <checkpoint>`. */
export function usageOf(name: CommandName): string {
  return `${name} ${commandList[name].takes}`.trim();
}

/** A name of the list. */
export const isListed = (name: string): name is CommandName => Object.hasOwn(commandList, name);

/** True for the command of a role of replicas. */
export const isReplica = (name: string): name is ReplicaRole => Object.hasOwn(replicas, name);
