/** The process's log: pino behind the Logger interface, with secrets and payloads struck out by path. */
import { createRequire } from "node:module";
import type { Logger } from "@muster/base";
import { type DestinationStream, destination, type LoggerOptions as PinoOptions, pino } from "pino";
import { openLogFile } from "./log-file.ts";
import { shortFields, shortOf } from "./short-fields.ts";

/** From most to least. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "silent"] as const;

/** One of the {@link logLevels}. */
export type LogLevel = (typeof logLevels)[number];

/** Where lines go: a standard stream, a file that is appended to, or a receiver of text. */
export type LogDestination =
  | "stdout"
  | "stderr"
  /** `onFailed` hears of lines that the disk does not take, `onLine` of each line. */
  | {
      readonly path: string;
      readonly onFailed?: (error: Error) => void;
      readonly onLine?: (line: string) => void;
    }
  | { readonly write: (line: string) => void };

/** What a logger is made from. */
export interface LoggerOptions {
  readonly level: LogLevel;
  /** Default `stdout`. */
  readonly destination?: LogDestination;
  /** Fields of every line: job, role, replica, incarnation. */
  readonly base?: object;
  /** Lines for people instead of JSON. */
  readonly pretty?: boolean;
}

/** Names whose values never reach a log, at the top of a line or one level down. */
const secretNames = [
  "password",
  "credentials",
  "dataKey",
  "key",
  "authorization",
  "secret",
  "tokens",
  "prompt",
  "text",
];

/** Creates a logger. Lines are written before the call returns, so that the last words of a dying process are kept. */
export function createLogger({
  level,
  destination: target = "stdout",
  base = {},
  pretty: human = false,
}: LoggerOptions): Logger {
  const options: PinoOptions = {
    level,
    base,
    errorKey: "error",
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }), log: shortFields },
    serializers: { error: (error: unknown) => shortOf(error), err: (error: unknown) => shortOf(error) },
    redact: {
      paths: secretNames.flatMap((name) => [name, `*.${name}`]),
      censor: (value) => (typeof value === "number" ? value : "[hidden]"),
    },
  };
  const stream = streamTo(target);
  return pino(options, human ? prettyTo(stream) : stream);
}

function streamTo(target: LogDestination): DestinationStream {
  if (target === "stdout") return destination({ dest: 1, sync: true });
  if (target === "stderr") return destination({ dest: 2, sync: true });
  if (!("path" in target)) return target;
  const file = openLogFile(target.path, target);
  const { onLine } = target;
  if (!onLine) return file;
  return {
    write(line) {
      file.write(line);
      onLine(line);
    },
  };
}

/** Formats line by line, in this thread: no stream machinery between a dying process and its last words. */
function prettyTo(stream: DestinationStream): DestinationStream {
  // Most processes write for programs, so that it is loaded for those only that write for people.
  const { prettyFactory } = createRequire(import.meta.url)("pino-pretty") as typeof import("pino-pretty");
  const format = prettyFactory({
    colorize: false,
    ignore: "pid,hostname,job",
    singleLine: true,
    translateTime: "HH:MM:ss.l",
    errorLikeObjectKeys: ["error"],
  });
  return { write: (line) => stream.write(format(JSON.parse(line))) };
}
