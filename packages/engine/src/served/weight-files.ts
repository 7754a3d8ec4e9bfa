/** Versions of weights as servers load them: a Hugging Face folder or a GGUF file each, whole or not there, the newest two kept. */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { byUmask, messageOf } from "@muster/base";
import { encodeLlamaGguf, encodeSafetensors, type PlacedTensor } from "@muster/tensors";
import { errors } from "../errors.ts";
import { makeFolderSync } from "../make-folder.ts";
import { makeOwnedFolder } from "./owned-folder.ts";

/** The model whose weights are written. */
export interface WrittenModel {
  readonly tensors: readonly PlacedTensor[];
  readonly modelConfig: Readonly<Record<string, unknown>>;
}

/** How weights are written. */
export type WeightFormat =
  | { readonly format: "hf" }
  | { readonly format: "gguf"; readonly vocabulary: readonly string[]; readonly endToken: number };

const kept = 2;

/** A folder of versions of one engine. */
export class WeightFiles {
  readonly #folder: string;
  readonly #model: WrittenModel;
  readonly #format: WeightFormat;
  #places: readonly string[] = [];

  private constructor(folder: string, model: WrittenModel, format: WeightFormat) {
    this.#folder = folder;
    this.#model = model;
    this.#format = format;
  }

  /** @param parent - Empty for the temporary folder of the host. @throws MUSTER_ERR_SERVER_FOLDER */
  static async open(parent: string, model: WrittenModel, format: WeightFormat): Promise<WeightFiles> {
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

  /** Writes a version. @returns Its path. @throws MUSTER_ERR_SERVER_FOLDER */
  async write(tag: string, weights: Uint8Array): Promise<string> {
    const { tensors, modelConfig: config } = this.#model;
    const place = join(this.#folder, `${tag}${this.#format.format === "gguf" ? ".gguf" : ""}`);
    const partial = join(this.#folder, `.${randomUUID()}`);
    const files =
      this.#format.format === "gguf"
        ? { "": encodeLlamaGguf({ config, tensors, weights, name: tag, ...this.#format }) }
        : {
            "config.json": [Buffer.from(`${JSON.stringify(config, null, 2)}\n`)],
            "model.safetensors": [encodeSafetensors(tensors, weights)],
          };
    try {
      if (this.#format.format === "hf") await mkdir(partial);
      for (const [name, parts] of Object.entries(files)) await writeParts(join(partial, name), parts);
      // One that was written before and could not be loaded.
      await rm(place, { recursive: true, force: true });
      await rename(partial, place);
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw errors.ServerFolder({ path: this.#folder, reason: messageOf(error) }, error);
    }
    const all = [...this.#places.filter((each) => each !== place), place];
    this.#places = all.slice(-kept);
    for (const old of all.slice(0, -kept)) await rm(old, { recursive: true, force: true });
    return place;
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function writeParts(path: string, parts: readonly Uint8Array[]): Promise<void> {
  const file = await open(path, "wx");
  try {
    for (const part of parts) await file.writeFile(part);
  } finally {
    await file.close();
  }
}
