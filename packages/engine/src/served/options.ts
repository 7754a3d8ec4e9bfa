/** The tables `[engine.openai]`, `[engine.sglang]` and `[engine.vllm]` of a job file. */
import { z } from "@muster/protocol";
import { errors } from "../errors.ts";
import { environmentIn, inheritedOf, type WorkerCommand, wordsOf } from "../programs/command.ts";
import type { EngineOptions } from "../registry/adapter.ts";
import type { ClientTimes } from "./client.ts";
import type { Dialect } from "./dialect.ts";
import { openaiDialect } from "./openai.ts";
import { withLaunchEnvironment } from "./repeats.ts";
import { sglangDialect } from "./sglang.ts";
import { vllmDialect } from "./vllm.ts";

/** Kinds of servers. */
export type ServedKind = Dialect["kind"];

const seconds = z.number().positive().max(86_400);
const text = z.string().max(4096);

const common = {
  url: text
    .default("")
    .describe("Servers that run already, by spaces. Each sampler takes its own. Empty with command."),
  servers: z.int().min(1).max(64).default(1).describe("How many servers of url one sampler takes."),
  command: text
    .default("")
    .describe("Program that starts a server; {port}, {model} and {tag} in it are replaced. Empty with url."),
  environment: text.default("").describe("What the program's environment has besides: NAME=value, by spaces."),
  api_key_file: text.default("").describe("File with the bearer token of the server; empty for none."),
  model: text.default("").describe("Name of the model in requests; empty for the first that the server names."),
  weights: z.enum(["hf", "gguf"]).default("hf").describe("Format of the weights that the server loads."),
  folder: text.default("").describe("Where weights are written for the server; empty for a temporary folder."),
  unverified: z
    .enum(["refuse", "accept"])
    .default("refuse")
    .describe("Whether a server is used that does not say which weights it has."),
  logprobs: z
    .enum(["server", "raw", "sampled-dist"])
    .default("server")
    .describe("Distribution of its log-probabilities: that of servers of its kind, or one it was started for."),
  concurrency: z.int().min(1).max(4096).default(32).describe("Responses that one server draws at the same time."),
  tries: z.int().min(1).max(64).default(6).describe("How often one response is asked for."),
  start_seconds: seconds.default(300).describe("Time until a server answers after its start, or after it was lost."),
  load_seconds: seconds.default(300).describe("Time to load weights."),
  call_seconds: seconds.default(120).describe("Time for one response."),
  silence_seconds: seconds.default(30).describe("Time that an answer which has begun may stand still."),
  health_seconds: seconds.default(5).describe("Time for one question that needs no model."),
};

/** Keys of the tables, with what each is. */
export const servedSchemas = {
  openai: z.strictObject({
    ...common,
    reload: text.default("").describe("Route that loads weights from model_path; empty to start the program again."),
  }),
  sglang: z.strictObject(common),
  vllm: z.strictObject(common),
} as const;

/** Options as they are used. */
export interface ServedOptions {
  readonly kind: ServedKind;
  readonly dialect: Dialect;
  readonly urls: readonly string[];
  /** Servers of one sampler. */
  readonly count: number;
  /** `null`: servers that run already. */
  readonly command: WorkerCommand | null;
  readonly keyFile: string;
  readonly model: string;
  readonly format: "hf" | "gguf";
  readonly folder: string;
  readonly trusts: boolean;
  readonly logprobs: "raw" | "sampled-dist";
  readonly concurrency: number;
  readonly tries: number;
  readonly times: ClientTimes & { readonly startMs: number; readonly loadMs: number };
}

/** Reads a table. `parent` is the environment of who starts servers. Pure. @throws MUSTER_ERR_SERVER_OPTION */
export function servedOptionsOf(
  kind: ServedKind,
  options: EngineOptions,
  parent: Readonly<Record<string, string | undefined>>,
): ServedOptions {
  const table = servedSchemas[kind].parse(options);
  const invalid = (field: string, value: string, rule: string): Error =>
    errors.ServerOption({ kind, field, value: JSON.stringify(value), rule });
  const urls = table.url.split(/\s+/).filter((url) => url !== "");
  const bad = urls.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url));
  if (bad !== undefined) throw invalid("url", bad, "an address such as http://127.0.0.1:30000");
  const words = table.command === "" ? null : wordsOf(table.command);
  if (table.command !== "" && !words?.length)
    throw invalid("command", table.command, "a program and its arguments, each quote closed");
  if (words && !words.some((word) => word.includes("{port}")))
    throw invalid("command", table.command, "a line with {port}, where the server listens");
  if (urls.length > 0 === (words !== null))
    throw invalid("url", table.url, words ? "empty, as there is a command" : "set, as there is no command");
  const env = environmentIn(table.environment);
  if (env === null) throw invalid("environment", table.environment, 'words such as "CUDA_VISIBLE_DEVICES=1"');
  const dialect = dialectOf(kind, "reload" in table ? String(table.reload) : "");
  return {
    ...{ kind, dialect, urls, format: table.weights, folder: table.folder, model: table.model },
    ...{ count: words ? 1 : table.servers, concurrency: table.concurrency, tries: table.tries },
    command: words && withLaunchEnvironment(kind, { words, env: { ...inheritedOf(parent), ...env } }),
    keyFile: table.api_key_file,
    trusts: table.unverified === "accept",
    logprobs: table.logprobs === "server" ? dialect.logprobs : table.logprobs,
    times: {
      callMs: 1000 * table.call_seconds,
      silenceMs: 1000 * table.silence_seconds,
      askMs: 1000 * table.health_seconds,
      startMs: 1000 * table.start_seconds,
      loadMs: 1000 * table.load_seconds,
    },
  };
}

/** The routes of a kind. Pure. */
export function dialectOf(kind: ServedKind, reload = ""): Dialect {
  if (kind === "openai") return openaiDialect(reload);
  return kind === "sglang" ? sglangDialect : vllmDialect;
}
