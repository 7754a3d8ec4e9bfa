/** The files of a tokenizer as Hugging Face lays them out, checked as far as Muster reads them. */
import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { z } from "@muster/protocol";
import { errors } from "../errors.ts";

/** Largest file that is read. The largest vocabularies in use take about half of it. */
const bytesMax = 64 * 2 ** 20;

const token = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish();

const configSchema = z.looseObject({
  eos_token: token,
  bos_token: token,
  chat_template: z.union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))]).nullish(),
});

const generationSchema = z.looseObject({
  eos_token_id: z.union([z.int().min(0), z.array(z.int().min(0)).min(1).max(64)]).nullish(),
});

/** What the files of a tokenizer say. */
export interface TokenizerFiles {
  /** `tokenizer.json`. */
  readonly model: object;
  /** `tokenizer_config.json`; empty where there is none. */
  readonly config: z.infer<typeof configSchema>;
  /** Token ids that `generation_config.json` ends a response with. */
  readonly stopTokenIds: readonly number[];
  readonly chatTemplate: string | null;
  /** Where conversations with tools have a template of their own. */
  readonly toolTemplate: string | null;
  /** SHA-256 of all of it, as hex. */
  readonly digest: string;
}

/** Reads the folder of a tokenizer. @throws MUSTER_ERR_TOKENIZER_INVALID naming the file */
export async function readTokenizerFiles(folder: string): Promise<TokenizerFiles> {
  const hash = createHash("sha256");
  const read = async (name: string): Promise<string | null> => {
    const text = await readText(join(folder, name));
    hash.update(`${name} ${text?.length ?? -1}\n`).update(text ?? "");
    return text;
  };
  const tokenizer = await read("tokenizer.json");
  const config = await read("tokenizer_config.json");
  const generation = await read("generation_config.json");
  const template = await read("chat_template.jinja");
  if (tokenizer === null)
    throw errors.TokenizerInvalid({ path: join(folder, "tokenizer.json"), reason: "there is no such file" });
  const model = parse(z.looseObject({ model: z.looseObject({}) }), tokenizer, join(folder, "tokenizer.json"));
  const settings = parse(configSchema, config ?? "{}", join(folder, "tokenizer_config.json"));
  const { eos_token_id: eos } = parse(generationSchema, generation ?? "{}", join(folder, "generation_config.json"));
  return {
    model,
    config: settings,
    stopTokenIds: eos === null || eos === undefined ? [] : [eos].flat(),
    chatTemplate: template ?? templateOf(settings, "default"),
    toolTemplate: template === null && Array.isArray(settings.chat_template) ? templateOf(settings, "tool_use") : null,
    digest: hash.digest("hex"),
  };
}

function templateOf({ chat_template: template }: TokenizerFiles["config"], wanted: string): string | null {
  if (!Array.isArray(template)) return template ?? null;
  return template.find(({ name }) => name === wanted)?.template ?? null;
}

async function readText(path: string): Promise<string | null> {
  try {
    const { size } = await stat(path);
    if (size > bytesMax) throw new Error(`it has ${size} bytes, more than ${bytesMax}`);
    return await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
    throw errors.TokenizerInvalid({ path, reason: messageOf(error) }, error);
  }
}

function parse<T>(schema: z.ZodType<T>, text: string, path: string): T {
  try {
    const { data, error } = schema.safeParse(JSON.parse(text));
    const [issue] = error?.issues ?? [];
    if (!issue) return data as T;
    throw new Error(`${issue.path.join(".") || "its content"}: ${issue.message}`);
  } catch (error) {
    throw errors.TokenizerInvalid({ path, reason: messageOf(error) }, error);
  }
}
