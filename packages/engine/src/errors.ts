import { defineErrors } from "@muster/base";

/** Errors of engines, tasks and the files they read. */
export const errors = defineErrors("MUSTER_ERR", {
  EngineModelInvalid: { message: "model {field} is {value}; it must be {rule}" },
  EngineOutOfMemory: {
    message: "the embedded engine cannot reserve memory for {what}; use a smaller model, batch or cache",
  },
  EngineStateLength: { message: "{section} has {bytes} bytes, expected {expectedBytes}; it belongs to another model" },
  EngineNotReady: { message: "{operation} needs {missing} first" },
  EngineRankLost: { message: "the engine lost a rank ({reason}) and ends with it; start it again", retryable: true },
  EngineBusy: { message: "{operation} was called while {running} is running; wait for it to end", retryable: true },
  EngineClosed: { message: "{operation} was called on an engine that is closed" },
  EngineOptionUnsupported: { message: "the embedded engine does not support {option} ({value}); leave it out" },
  EngineRequestInvalid: { message: "request {requestId}: {field} is {value}; it must be {rule}" },
  EngineSampleInvalid: { message: "training sample {index}: {field} is {value}; it must be {rule}" },
  EngineOptionInvalid: { message: "{field} is {value}; it must be {rule}" },
  EngineUnknown: { message: 'engine "{name}" is not known; known engines are {known}, or the path of a module' },
  EngineTable: { message: "the table [{table}] of an engine: {key} can not be a key ({reason})" },
  EngineAdapterInvalid: { message: "{path} is no engine: {reason}" },
  EngineRole: { message: 'the engine "{kind}" can not be a {role}' },
  EngineProcesses: {
    message: 'the engine "{kind}" has no program for ranks other than 0, as a {role} of several processes needs',
  },
  EngineDiffers: {
    message: "the engine {kind} was opened with another {what} than it said: {found}, and the job has {wanted}",
  },
  EngineNotCompliant: { message: "the engine does not do what an engine must: {what}" },
  WorkerCommand: { message: "the worker's {field} is {value}; it must be {rule}" },
  WorkerLost: { message: "the worker ({command}) is gone: {reason}; {words}", retryable: true },
  WorkerProtocol: { message: "the worker does not keep to the protocol: {reason}" },
  WorkerRefuses: { message: "the worker refuses this job: {reason}" },
  WorkerCall: { message: "{method} failed in the worker ({kind}): {reason}" },
  WorkerArena: {
    message:
      "{wantedBytes} bytes do not fit into the region {region} of {bytes}; raise engine.worker.arena_mb, or for a reward or reference reward.worker.arena or reference.worker.arena",
  },
  WorkerMemory: {
    message: "the worker's regions need {wantedBytes} bytes of {folder}, which has {freeBytes}; make it larger",
  },
  ServerUnreachable: { message: "the inference server {url} can not be reached: {reason}", retryable: true },
  ServerBusy: { message: "the inference server {url}{path} is busy ({status}): {reason}", retryable: true },
  ServerFailed: { message: "the inference server {url}{path} failed ({status}): {reason}", retryable: true },
  ServerRefuses: { message: "the inference server {url}{path} refuses the request ({status}): {reason}" },
  ServerAnswer: { message: "the inference server {url}{path}: its answer {reason}" },
  ServerStale: {
    message:
      "the inference server {url} has the weights {found}, not {wanted}; it was started again, or somebody else loads weights there",
    retryable: true,
  },
  ServerUnverified: {
    message:
      'the inference server {url} does not say which weights {what}, so nobody knows; use one that does, or trust it with engine.{kind}.unverified = "accept"',
  },
  ServerChecksum: {
    message:
      'the inference server {url} says that it has the weights {tag}, and its checksum {reason}; see that it reads engine.{kind}.folder as it is written, or take it out; engine.{kind}.unverified = "accept" asks for no checksum',
    retryable: true,
  },
  ServerPaused: { message: "the inference server {url} was paused and does not go on: {reason}", retryable: true },
  ServerRoutes: { message: "the inference server {url} has no routes for weights: {reason}; {fix}" },
  ServerNone: { message: "no inference server of {urls} can be used: {reason}", retryable: true },
  ServerTaken: {
    message:
      "{wanted} of the servers in engine.{kind}.url are needed, and {free} are free: other samplers of this host have the rest; name more",
    retryable: true,
  },
  ServerEnded: { message: "the inference server ({command}) ended: {reason}; {words}", retryable: true },
  ServerFolder: { message: "weights can not be written for an inference server to {path}: {reason}" },
  ServerOption: { message: "engine.{kind}.{field} is {value}; it must be {rule}" },
  EngineVersionMismatch: {
    message: "the engine holds weight version {version}, not {expected}; update its weights first",
  },
  RewardUnknown: { message: 'reward "{name}" is not known; known rewards are {known}' },
  RewardInvalid: {
    message: 'reward "{name}" returned {value}; it must return a number, finite and between -{limit} and {limit}',
  },
  RewardField: { message: 'reward "{name}" answered {field} with {value}; it must be {rule}' },
  RewardAnswer: {
    message: 'reward "{name}" answered {answer}; it must answer with JSON such as {"reward": 0.5} or {"error": "why"}',
  },
  RewardFailed: { message: 'reward "{name}" failed: {reason}' },
  RewardUnreachable: { message: 'reward "{name}" can not be asked now: {reason}', retryable: true },
  RewardProgramEnded: { message: "the program of the reward, {path}, ended with {reason}" },
  TrajectoryInvalid: { message: "{from} returned an invalid response: {reason}" },
  TrajectoryTimeout: { message: "{what} did not end within {timeoutMs} ms" },
  SampleSettled: { message: "request {requestId}: its sample is settled already; await everything before you return" },
  GenerateShape: {
    message: "{from} returned {found}; with rollout.fan_out = {fanOut} it must return {wanted} for each sample",
  },
  GenerateField: { message: "{from} returned {field} = {value}; it must be {rule}" },
  AgentOption: { message: "rollout.agent.{field} is {value}; it must be {rule}" },
  AgentEnded: { message: "the agent ({command}) ended before its time: {reason}; {words}" },
  AgentRefused: { message: "{reason}; its last refused request: {refusal}" },
  AgentEpisode: { message: "the agent's episode can not be trained: {reason}" },
  ModuleExport: { message: "{path} exports {found} where a function is wanted; export it as default or as {name}" },
  GenerateTurns: { message: "a sample asks for more than {turnsMax} turns at the same time; await some of them first" },
  ModuleProgram: { message: "there is no {file}; build the project first (pnpm build)" },
  ModuleEnded: { message: "the process of {path} is gone: {reason}; {words}" },
  ModuleMemory: { message: "the process of {path} has no memory left ({reason}; {words}); see limits.module_memory" },
  ModuleBlocked: {
    message: "the code of {path} computed for {blockedMs} ms without giving way, as an endless loop does; {words}",
  },
  TrajectoryAborted: { message: "the engine aborted the trajectory", retryable: true },
  HfFolderUnsupported: { message: "{path}: {field} is {value}; the embedded engine needs {rule}" },
});
