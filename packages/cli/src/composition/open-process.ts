/** What the process of every actor has: its log, its metrics endpoint, its words to the operator. */
import { join } from "node:path";
import { type Logger, type Metrics, noMetrics } from "@muster/base";
import { createLogger, type LogLevel, sayLastWords, systemClock } from "@muster/runtime";
import { ReplicaView } from "../terminal/replica-view.ts";
import { terminalOf } from "../terminal/terminal.ts";
import type { JobConnection } from "./connection.ts";

/** Options that every actor command has. */
export interface ActorOptions {
  readonly connection: JobConnection & { readonly directory: string };
  readonly id: string;
  /** Node that started this process. */
  readonly node?: string;
  /** Life of the replica of several processes that it speaks for. */
  readonly life?: number;
  readonly logLevel: LogLevel;
  /** `file`: to `<job>/logs/<id>.log`. `people`: there, and for a person on standard error, where that is a terminal; else as `stderr`. */
  readonly logTo: "file" | "people" | "stderr";
  readonly metricsPort: number | null;
  /** A child of `muster run`: standard input is held open by the parent, SIGINT is the parent's. */
  readonly supervised: boolean;
  /** How long a leaving process may take. */
  readonly graceMs: number;
}

/** Opens them; `close` when the actor has ended. */
export async function openProcess(options: ActorOptions, role: string) {
  const { logger, end } = openLog(options, role);
  const { metrics, close } = await openMetrics(options.metricsPort, logger);
  const say = (sentence: string): void => {
    end();
    sayLastWords(sentence);
  };
  return {
    ...{ logger, metrics, say },
    async close() {
      end();
      await close();
    },
  };
}

/** Metrics are kept where somebody can read them. */
async function openMetrics(
  port: number | null,
  logger: Logger,
): Promise<{ readonly metrics: Metrics; close(): Promise<void> }> {
  if (port === null) return { metrics: noMetrics, close: async () => {} };
  const { createMetrics, startMetricsServer } = await import("@muster/runtime/metrics");
  const metrics = createMetrics();
  const server = await startMetricsServer({ host: "127.0.0.1", port, metrics });
  logger.info({ port: server.port }, "metrics are served");
  return { metrics, close: () => server.close() };
}

/** The log of a process: its file, lines of JSON on standard error, or, for a person at a terminal, the file and a few lines. */
function openLog(options: ActorOptions, role: string): { readonly logger: Logger; readonly end: () => void } {
  const { connection, id, logLevel: level, logTo } = options;
  const base = { job: connection.job, role, replica: id };
  const path = join(connection.directory, "logs", `${id}.log`);
  const terminal = terminalOf(process.stderr, process.env);
  if (logTo === "file") return { logger: createLogger({ level, destination: { path }, base }), end: () => {} };
  const isForPeople = logTo === "people" && terminal.isLive;
  // A controller has no work of its own to show: its log is what it says.
  if (!isForPeople || role === "controller")
    return { logger: createLogger({ level, destination: "stderr", base, pretty: isForPeople }), end: () => {} };
  const view = new ReplicaView({ terminal, clock: systemClock(), wallMs: Date.now, id, role });
  view.say(`  ${id} joins job ${connection.job}; Ctrl-C and it hands back its work and leaves; log: ${path}`);
  const onLine = (line: string): void => view.take(line);
  const end = (): void => view.end();
  // A process that ends at once gives the cursor back all the same.
  process.on("exit", end);
  return { logger: createLogger({ level, destination: { path, onLine }, base }), end };
}
