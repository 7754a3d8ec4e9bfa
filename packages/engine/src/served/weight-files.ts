/** Versions of weights as servers load them: a Hugging Face folder or a GGUF file each, whole or not there, the newest two kept. */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { byUmask, messageOf } from "@muster/base";
import { encodeLlamaGguf, encodeSafetensorsHeader, type PlacedTensor } from "@muster/tensors";
import type { SectionSource } from "../engine.ts";
import { errors } from "../errors.ts";
import { makeFolderSync } from "../make-folder.ts";
import { makeOwnedFolder } from "./owned-folder.ts";
import { WeightSample } from "./weight-sample.ts";

/** The model whose weights are written. */
export interface WrittenModel {
  readonly tensors: readonly PlacedTensor[];
  readonly modelConfig: Readonly<Record<string, unknown>>;
}

/** How weights are written. */
export type WeightFormat =
  | { readonly format: "hf" }
  | { readonly format: "gguf"; readonly vocabulary: readonly string[]; readonly endToken: number };

/** The format, and for tests: most bytes of weights that are held here on their way to a file. */
type FilesOptions = WeightFormat & { readonly windowMax?: number };

const kept = 2;

/** Unless the options say. */
const windowBytes = 64 * 2 ** 20;

/** A folder of versions of one engine. */
export class WeightFiles {
  readonly #folder: string;
  readonly #model: WrittenModel;
  readonly #format: WeightFormat;
  readonly #windowMax: number;
  #places: readonly string[] = [];
  readonly #samples = new Map<string, Uint16Array>();

  private constructor(folder: string, model: WrittenModel, { windowMax = windowBytes, ...format }: FilesOptions) {
    this.#folder = folder;
    this.#model = model;
    this.#format = format;
    this.#windowMax = windowMax;
  }

  /** @param parent - Empty for the temporary folder of the host. @throws MUSTER_ERR_SERVER_FOLDER */
  static async open(parent: string, model: WrittenModel, format: FilesOptions): Promise<WeightFiles> {
    try {
      if (parent !== "") makeFolderSync(parent, byUmask);
      const folder = await makeOwnedFolder(parent === "" ? tmpdir() : parent);
      // Servers may run as another user; weights are no secret of the sampler alone where a folder is given for them.
      if (parent !== "") await chmod(folder, 0o755);
      return new WeightFiles(folder, model, format);
    } catch (error) {
      throw errors.ServerFolder({ path: parent, reason: messageOf(error) }, error);
    }
  }

  /**
   * Writes a version, window by window: no array has all of it, but for a GGUF file.
   *
   * @returns Its path. @throws MUSTER_ERR_SERVER_FOLDER; what the source throws. Nothing of it is left then.
   */
  async write(tag: string, weights: SectionSource): Promise<string> {
    const { tensors, modelConfig: config } = this.#model;
    const place = join(this.#folder, `${tag}${this.#format.format === "gguf" ? ".gguf" : ""}`);
    const partial = join(this.#folder, `.${randomUUID()}`);
    const sample = new WeightSample(tensors);
    const source = sampled(weights, sample);
    const files: Readonly<Record<string, Parts>> =
      this.#format.format === "gguf"
        ? { "": encodeLlamaGguf({ config, tensors, weights: await wholeOf(source), name: tag, ...this.#format }) }
        : {
            "config.json": [Buffer.from(`${JSON.stringify(config, null, 2)}\n`)],
            "model.safetensors": safetensorsOf(tensors, source, this.#windowMax),
          };
    try {
      if (this.#format.format === "hf") await mkdir(partial);
      for (const [name, parts] of Object.entries(files)) await writeParts(join(partial, name), parts);
      // One that was written before and could not be loaded.
      await rm(place, { recursive: true, force: true });
      await rename(partial, place);
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      if (error instanceof SourceFailed) throw error.cause;
      throw errors.ServerFolder({ path: this.#folder, reason: messageOf(error) }, error);
    }
    const all = [...this.#places.filter((each) => each !== place), place];
    this.#places = all.slice(-kept);
    this.#samples.set(place, sample.values());
    for (const old of all.slice(0, -kept)) {
      this.#samples.delete(old);
      await rm(old, { recursive: true, force: true });
    }
    return place;
  }

  /** Sample of what was written to a path; `null` when it was not written here, or is gone. */
  sampleOf(path: string): Uint16Array | null {
    return this.#samples.get(path) ?? null;
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

type Parts = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

async function writeParts(path: string, parts: Parts): Promise<void> {
  const file = await open(path, "wx");
  try {
    for await (const part of parts) await file.writeFile(part);
  } finally {
    await file.close();
  }
}

/** It is not the folder's fault that the bytes did not come. */
class SourceFailed extends Error {}

/** A file in windows of one memory: each is written before the next one comes. */
async function* safetensorsOf(
  tensors: readonly PlacedTensor[],
  { bytes, copyTo }: SectionSource,
  windowMax: number,
): AsyncGenerator<Uint8Array, void> {
  yield encodeSafetensorsHeader(tensors, bytes);
  const memory = new Uint8Array(Math.min(windowMax, bytes));
  for (let from = 0; from < bytes; from += windowMax) {
    const window = memory.subarray(0, Math.min(windowMax, bytes - from));
    await copyTo(window, from).catch((cause: unknown) => {
      throw new SourceFailed("the source failed", { cause });
    });
    yield window;
  }
}

/** The source, of whose bytes a sample is taken on their way. */
const sampled = ({ bytes, copyTo }: SectionSource, sample: WeightSample): SectionSource => ({
  bytes,
  copyTo: async (into, from = 0) => {
    await copyTo(into, from);
    sample.add(into, from);
  },
});

async function wholeOf({ bytes, copyTo }: SectionSource): Promise<Uint8Array> {
  const whole = new Uint8Array(bytes);
  await copyTo(whole);
  return whole;
}
