export { type ActorProcess, type ActorProcessOptions, type ProcessExit, spawnActor } from "./actor-process.ts";
export { testCertificate } from "./certificate.ts";
export { chromiumMissing, findChromium, openBrowser } from "./chromium.ts";
export { describeTransport, type TransportFixture } from "./compliance/transport.ts";
export { type CountedSteps, countStepMessages, type StepMessages } from "./durable-messages.ts";
export {
  type JobEvent,
  type JobRun,
  type JobRunOptions,
  type JobSummary,
  pidOfActor,
  spawnMuster,
  startJobRun,
  summaryOf,
} from "./job-run.ts";
export { type MemoryLimit, memoryLimitMissing, openMemoryLimit } from "./memory-limit.ts";
export { findNatsServer } from "./nats-binary.ts";
export { newerMinor } from "./newer-minor.ts";
export { type ProcessInfo, processesNaming } from "./processes.ts";
export { type OnTerminal, ptyMissing, startOnTerminal, type WindowSize, windowOf } from "./pty.ts";
export { pythonThatRuns } from "./python.ts";
export { connectRaw, type RawOutcome, type RawRequest, rawHeaders, requestAs } from "./raw-client.ts";
export { secondHostMissing } from "./second-host.ts";
export { makeTempDirectory, type TempDirectory } from "./temp-directory.ts";
export { startTestServer, type TestServer, type TestServerOptions } from "./test-server.ts";
export { type EventFile, type EventScalar, readEventFile } from "./tfevents.ts";
export { type WaitOptions, waitFor } from "./wait-for.ts";
