import { defineErrors } from "@muster/base";

/** Errors of the command line; all of them are the user's to mend. */
export const errors = defineErrors("MUSTER_ERR", {
  FilesFew: {
    message:
      "this process may have {limit} files open, and needs {min} or more; raise the limit in this shell: ulimit -n 1024",
  },
  TaskModuleFault: { message: "{fault}" },
  JobUnknown: {
    message: 'no job "{job}" in {directory}; start one with: {start}, or name its folder with --runs and --job',
  },
  RankAlone: {
    message:
      "--rank {said}: the rank in the environment is {found}; the processes of a replica of several are started by muster node, not by hand",
  },
  JobOver: { message: "nobody can join: {run}" },
  JobNone: { message: "there is no job in {directory}; start one with: {start}" },
  JobBusy: { message: 'job "{job}" is run by process {pid} already; choose another name with --job' },
  JobDiffers: {
    message:
      'job "{job}" was started with another configuration: {field} was {earlier} and is {now}; go on with its own: {resume}, change settings with --resume and --set, or give the run a new name with --job',
  },
  SettingFixed: {
    message:
      'settings: {key} = {value} can not change in this run, which has {key} = {began}; what can: {changeable}. For another one begin a run of its own, from here with weights.source = "checkpoint:PATH"',
  },
  SettingRefused: { message: 'job "{job}" does not change: {reason}' },
  CertifyLevel: { message: "--level {level} can not be proven of this job: {against}" },
  CertifyRun: {
    message: "run {job} of the proof failed: {reason}; it said: {words}. Its logs are in {directory}/logs",
  },
  RunDirectory: { message: "the run directory {directory} can not be written: {reason}; choose another with --runs" },
  FolderUnusable: {
    message: "{field}: no folder can be used at {path}: {reason}; name one in which this user can write",
  },
  ConnectionOther: {
    message: 'the file {path} of --connection is of the job "{job}", and --job says "{named}"; leave --job out',
  },
  RunFile: { message: "{path} can not be read: {reason}" },
  CredentialsMissing: {
    message:
      "no credentials for the role {role} in {path}; have whoever runs the job write a file with them ({give} > FILE) and name it with --connection",
  },
  SecretOpen: {
    message: "{path} holds keys, and others than its owner can use it (mode {mode}): chmod 600 {path}",
  },
  OptionInvalid: { message: "--{option}: {value} {reason}" },
  ArgumentInvalid: { message: '{argument} "{value}" can not be used; {reason}' },
  NatsBinary: {
    message:
      'no nats-server found; run "npm run setup", or set MUSTER_NATS_SERVER to the program (2.11 or newer), or MUSTER_NATS_URL to a running server',
  },
  ExternalCredentials: {
    message:
      "MUSTER_NATS_URL is set but {variable} is not; it names the JSON file with the users of that server by role",
  },
  AnswerLate: {
    message:
      "{what} within {timeout}; the request is stored and will be done{hint}; wait longer with --timeout, or watch it: {watch}",
    retryable: true,
  },
  SimulatorMissing: {
    message:
      "the simulator can not be loaded: {reason}; it is part of the source tree: run this command there, after npm run setup",
  },
  OutputLost: { message: "{stream}: {reason}; what was written is not complete, send it where it can be written" },
  BenchMember: { message: "a process of the measurement failed at {call}: {reason}" },
  BenchPeer: { message: "{peer} did not finish: {reason}; leave it out with --no-peers" },
  BenchMemory: { message: "nothing of it fits into memory: {reason}; give smaller --size or --{count}" },
  BenchHosts: { message: "no test hosts here: {reason}" },
  JoinTokenMissing: {
    message:
      "no join token: set {variable}, or name its file with --join-token-file; the master prints the one and writes the other",
  },
  JoinTokenInvalid: {
    message:
      "{from}: a join token has {min} to {max} letters, digits or . _ ~ + / = -, this one has {length} characters; one is made by: openssl rand -hex 32",
  },
  JoinTokenWrong: {
    message:
      "the master at {host}:{port} has another join token; take the one that it printed, or its --join-token-file",
  },
  JoinRefused: { message: "the master at {host}:{port} does not let this rank in: {reason}" },
  MasterAway: {
    message:
      "no master at {host}:{port} within {waited} ({reason}); start it there with --master, or wait longer with --join-timeout",
    retryable: true,
  },
  MasterForeign: {
    message: "what listens at {host}:{port} is no master of muster ({reason}); check MASTER_ADDR and MASTER_PORT",
  },
  MasterAddress: {
    message: "ranks can not join at {host}:{port}: {reason}; choose another --master-port, or end what has this one",
  },
  ChildFailed: { message: "{id} ended with {how} before it joined; its log is {log}" },
});
