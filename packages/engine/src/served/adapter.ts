/** Inference servers as samplers: `engine.rollout = "openai"`, `"sglang"` or `"vllm"`. They serve whatever model the job's trainers make. */
import { accessSync, constants, readFileSync } from "node:fs";
import { messageOf } from "@muster/base";
import { taskOf } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { errors } from "../errors.ts";
import type {
  EngineAdapter,
  EngineDescription,
  EngineOpening,
  EngineOptions,
  EngineProblem,
} from "../registry/adapter.ts";
import { claimServers } from "./claim.ts";
import { servedFindings } from "./doctor.ts";
import { type ServedKind, type ServedOptions, servedOptionsOf, servedSchemas } from "./options.ts";
import { flagProblems } from "./repeats.ts";
import { ServedRolloutEngine } from "./rollout-engine.ts";
import { WeightFiles, type WeightFormat } from "./weight-files.ts";

/** What the adapter does is the same for one build: a server's own build is its own matter. */
const build = "served-1";

/**
 * The adapter of one kind of servers.
 *
 * @param env - Environment that programs inherit, but for what is meant for Muster itself.
 */
export const servedAdapterOf = (
  kind: ServedKind,
  env: Readonly<Record<string, string | undefined>>,
): EngineAdapter => ({
  kind,
  roles: ["rollout"],
  takesTrainersModel: true,
  schema: servedSchemas[kind],
  build: () => build,
  describe(options, needs, trainer) {
    const { logprobs } = servedOptionsOf(kind, options, env);
    if (!trainer) throw errors.EngineRole({ kind, role: "trainer" });
    const { modelId, vocab, maxContext, tensors, modelConfig } = trainer;
    const model = { modelId, vocab, maxContext, tokenizer: needs.tokenizer, tensors, modelConfig };
    return { ...model, deterministic: false, transports: ["inline"], logprobs };
  },
  check: (options, config) => problemsOf(kind, options, { config, env }),
  repeats: (options) => flagProblems(servedOptionsOf(kind, options, env)),
  doctor: (given = {}) => servedFindings(kind, given),
  openRollout: (options, opening) => openServed(servedOptionsOf(kind, options, env), opening),
});

/** Most bytes of a section that is put into one array. */
const arrayMax = 2 ** 32 - 1;

async function openServed(options: ServedOptions, { config, trainer }: EngineOpening): Promise<ServedRolloutEngine> {
  const { kind, logprobs, command } = options;
  if (!trainer) throw errors.EngineRole({ kind, role: "trainer" });
  const weightsBytes = bytesOf(trainer);
  if (options.format === "gguf" && weightsBytes > arrayMax)
    throw errors.ServerOption({
      ...{ kind, field: "weights", value: '"gguf"' },
      rule: `"hf" for weights of ${weightsBytes} bytes: a GGUF file is put together in one array, of at most ${arrayMax} bytes`,
    });
  const key = options.keyFile === "" ? "" : keyIn(kind, options.keyFile);
  const claim = command ? { urls: null, release: async () => {} } : await claimServers(options);
  try {
    const files = await WeightFiles.open(options.folder, trainer, formatOf(options, config));
    const { modelId, vocab, maxContext } = trainer;
    const info = { kind, build, modelId, vocab, maxContext, ranks: 1, logprobs };
    return new ServedRolloutEngine({ options, info, weightsBytes, key, files, ...claim });
  } catch (error) {
    await claim.release();
    throw error;
  }
}

function keyIn(kind: ServedKind, path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    const rule = `a file that can be read (${messageOf(error)})`;
    throw errors.ServerOption({ kind, field: "api_key_file", value: path, rule }, error);
  }
}

const bytesOf = ({ tensors }: EngineDescription): number =>
  tensors.reduce((sum, { offsetBytes, sizeBytes }) => Math.max(sum, offsetBytes + sizeBytes), 0);

/** A GGUF file has the text of each token; those of built-in tasks are known. */
function formatOf({ format }: ServedOptions, { task }: JobConfig): WeightFormat {
  if (format === "hf") return { format };
  const { vocab, decode, stopTokenIds } = taskOf(task.name);
  const vocabulary = Array.from({ length: vocab }, (_, id) => decode(Int32Array.of(id)));
  return { format, vocabulary, endToken: stopTokenIds[0] ?? 0 };
}

interface Given {
  readonly config: JobConfig;
  readonly env: Readonly<Record<string, string | undefined>>;
}

function problemsOf(kind: ServedKind, given: EngineOptions, { config, env }: Given): readonly EngineProblem[] {
  const key = (name: string): string => `engine.${kind}.${name}`;
  let options: ServedOptions;
  try {
    options = servedOptionsOf(kind, given, env);
  } catch (error) {
    return [{ keys: [key("url"), key("command")], text: messageOf(error) }];
  }
  const { command, dialect, urls, count, format } = options;
  const needed = config.replicas.rollout * count;
  const problem = (holds: boolean, keys: readonly string[], text: string): EngineProblem[] =>
    holds ? [] : [{ keys, text }];
  return [
    ...problem(
      command !== null || needed <= urls.length,
      [key("url"), "replicas.rollout"],
      `replicas.rollout = ${config.replicas.rollout} samplers with ${key("servers")} = ${count} need ${needed} servers, and ${key("url")} names ${urls.length}: each sampler loads its own weights; name more servers or lower replicas.rollout`,
    ),
    ...problem(
      command !== null || dialect.load !== undefined,
      [key("url")],
      `${key("url")}: a server of this kind that runs already can not be given weights; let Muster start it with ${key("command")}, or name the route that loads weights in ${key("reload")}`,
    ),
    ...problem(
      format === "hf" || (config.prompts === undefined && config.taskModule === undefined),
      [key("weights")],
      `${key("weights")} = "gguf": the file has the text of each token, which is known of the built-in tasks alone; set it to "hf", which llama.cpp's own converter reads`,
    ),
    ...problem(
      command === null || command.words.some((word) => word.includes("{model}")) || dialect.load !== undefined,
      [key("command")],
      `${key("command")} has no {model}: the server would not get the weights; put it where the program takes the path of its model`,
    ),
    ...(command ? programProblems(key("command"), command.words[0] ?? "") : []),
  ];
}

function programProblems(key: string, program: string): readonly EngineProblem[] {
  if (!program.includes("/")) return []; // found by PATH, on the host of the sampler
  try {
    accessSync(program, constants.X_OK);
    return [];
  } catch (error) {
    return [{ keys: [key], text: `${key}: ${program} can not be run: ${messageOf(error)}` }];
  }
}
