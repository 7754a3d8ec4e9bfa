/** `muster export`: a checkpoint as other programs load it. */
import { existsSync } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { byUmask, formatSize, messageOf, parseSizeBytes } from "@muster/base";
import { type LoadedCheckpoint, loadCheckpoint, newestVerifiedCheckpoint } from "@muster/checkpoint";
import { taskOf } from "@muster/data";
import { makeFolderSync } from "@muster/runtime";
import { encodeLlamaGguf, encodeSafetensors, encodeShards } from "@muster/tensors";
import { type Command, Option } from "commander";
import { errors } from "../errors.ts";
import { listed } from "./list.ts";

const formats = ["hf", "gguf"] as const;

interface Options {
  readonly format: (typeof formats)[number];
  readonly out: string;
  readonly task?: string;
  readonly vocabulary?: string;
  readonly shardSize?: string;
  readonly json?: boolean;
}

/** Files of the export, by their name in it; each as parts that are written one after the other. */
type Files = Readonly<Record<string, readonly Uint8Array[]>>;

/** Adds the command. */
export function addExportCommand(program: Command): void {
  listed(program, "export")
    .argument("<checkpoint>", "folder of a checkpoint, or of a job's checkpoints: then the newest")
    .addOption(new Option("--format <format>", "hf or gguf").choices(formats).default("hf"))
    .requiredOption("--out <path>", "folder (hf) or file (gguf) to write; it must not be there yet")
    .option("--shard-size <size>", "hf: several files of at most this size and their index, e.g. 5GiB")
    .option("--task <name>", "gguf: built-in task whose characters are the tokens")
    .option(
      "--vocabulary <characters>",
      "gguf: characters of the tokens of another task, in order; the first ends a response",
    )
    .option("--json", "write one line of JSON: what was written")
    .action(async (checkpoint: string, options: Options) => {
      const loaded = await openCheckpoint(resolve(checkpoint));
      const out = resolve(options.out);
      if (existsSync(out))
        throw errors.OptionInvalid({
          option: "out",
          value: out,
          reason: "is there already; name another, or remove it",
        });
      const { step, version, name } = loaded.info;
      const bytes =
        options.format === "hf"
          ? await writeFolder(out, hfFiles(loaded, options))
          : await writeFile(out, ggufOf(loaded, options));
      const said = { format: options.format, out, checkpoint: name, step, version, bytes };
      const text = `${out}: ${options.format} of ${name} (step ${step}), ${formatSize(bytes)}`;
      process.stdout.write(`${options.json ? JSON.stringify(said) : text}\n`);
    });
}

/** A checkpoint, with every digest verified; the newest of a folder of them. */
async function openCheckpoint(path: string): Promise<LoadedCheckpoint> {
  if (existsSync(join(path, "manifest.json"))) return await loadCheckpoint(path);
  const newest = existsSync(path) ? await newestVerifiedCheckpoint(path) : null;
  if (!newest)
    throw errors.ArgumentInvalid({
      argument: "checkpoint",
      value: path,
      reason: "there is no whole checkpoint there; name one of a job's checkpoint.directory",
    });
  return await loadCheckpoint(newest.path);
}

function weightsOf({ sections, info }: LoadedCheckpoint): Uint8Array {
  const section = sections.find(({ name }) => name === "weights");
  if (section) return section.bytes;
  throw errors.ArgumentInvalid({ argument: "checkpoint", value: info.path, reason: "it has no section of weights" });
}

function hfFiles(loaded: LoadedCheckpoint, { shardSize }: Options): Files {
  const { modelConfig, tensors } = loaded;
  const config = { "config.json": [Buffer.from(`${JSON.stringify(modelConfig, null, 2)}\n`)] };
  const weights = weightsOf(loaded);
  if (shardSize !== undefined) return { ...config, ...encodeShards(tensors, weights, shardBytesOf(shardSize)) };
  return { ...config, "model.safetensors": [encodeSafetensors(tensors, weights)] };
}

function shardBytesOf(value: string): number {
  try {
    return parseSizeBytes(value);
  } catch (error) {
    throw errors.OptionInvalid({ option: "shard-size", value, reason: messageOf(error) }, error);
  }
}

function ggufOf(loaded: LoadedCheckpoint, { task, vocabulary }: Options): readonly Uint8Array[] {
  const { modelConfig: config, tensors, info } = loaded;
  const weights = weightsOf(loaded);
  return encodeLlamaGguf({
    config,
    tensors,
    weights,
    name: `${info.job}-v${info.version}`,
    ...tokensOf(task, vocabulary),
  });
}

/** The text of each token, and the one that ends a response. */
function tokensOf(task: string | undefined, vocabulary: string | undefined) {
  if (task !== undefined && vocabulary !== undefined)
    throw errors.OptionInvalid({
      option: "vocabulary",
      value: vocabulary,
      reason: "does not go with --task; leave one out",
    });
  if (vocabulary !== undefined) {
    const characters = [...vocabulary];
    if (new Set(characters).size === characters.length && characters.length > 1)
      return { vocabulary: characters, endToken: 0 };
    throw errors.OptionInvalid({
      option: "vocabulary",
      value: vocabulary,
      reason: "must be two characters or more, each once",
    });
  }
  if (task === undefined)
    throw errors.OptionInvalid({
      option: "task",
      value: "(none)",
      reason:
        "is needed for gguf, or --vocabulary: the file holds the text of each token. A model with a Hugging Face tokenizer is exported as hf, which llama.cpp's own converter reads",
    });
  const { vocab, decode, stopTokenIds } = taskOf(task);
  const texts = Array.from({ length: vocab }, (_, id) => decode(Int32Array.of(id)));
  return { vocabulary: texts, endToken: stopTokenIds[0] ?? 0 };
}

/** Writes beside the place and renames, so that what is there is whole. @returns Bytes written. */
async function writeFolder(out: string, files: Files): Promise<number> {
  return await inPlace(out, async (partial) => {
    await mkdir(partial);
    let bytes = 0;
    for (const [name, parts] of Object.entries(files)) bytes += await writeParts(join(partial, name), parts);
    return bytes;
  });
}

async function writeFile(out: string, parts: readonly Uint8Array[]): Promise<number> {
  return await inPlace(out, (partial) => writeParts(partial, parts));
}

async function inPlace(out: string, write: (partial: string) => Promise<number>): Promise<number> {
  const partial = join(dirname(out), `.${basename(out)}.${process.pid}`);
  try {
    makeFolderSync(dirname(out), byUmask);
    const bytes = await write(partial);
    await rename(partial, out);
    return bytes;
  } catch (error) {
    await rm(partial, { recursive: true, force: true });
    throw errors.FolderUnusable({ field: "--out", path: dirname(out), reason: messageOf(error) }, error);
  }
}

async function writeParts(path: string, parts: readonly Uint8Array[]): Promise<number> {
  const file = await open(path, "wx");
  try {
    for (const part of parts) await file.writeFile(part);
    await file.sync();
    return parts.reduce((sum, { length }) => sum + length, 0);
  } finally {
    await file.close();
  }
}
