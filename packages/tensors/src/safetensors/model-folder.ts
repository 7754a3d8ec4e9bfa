/** A model as a folder of Hugging Face: `model.safetensors`, or several files and `model.safetensors.index.json` that says what is where. */
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { labelOf, type PlacedTensor } from "../tensor-spec.ts";
import { type FileSource, fillFrom, openFileSource } from "./file-source.ts";
import { decodeSafetensorsHeader, headerBytesOf, lengthBytes } from "./header.ts";
import { pickleReason } from "./pickles.ts";
import { modelIndexFile } from "./shards.ts";
import { repeatsKey } from "./strict-json.ts";

/** A folder whose files are open. Nothing of a tensor is in memory before it is read. */
export interface ModelFolder {
  /** By name; offsets count within the data of the file that a tensor is in. */
  readonly tensors: ReadonlyMap<string, PlacedTensor>;
  /**
   * Fills `target` with the bytes of a tensor from `fromBytes` on.
   *
   * @throws MUSTER_ERR_MODEL_FOLDER_INVALID when there is no such range, or the file became shorter.
   */
  read(name: string, target: Uint8Array, fromBytes?: number): Promise<void>;
  close(): Promise<void>;
}

/** A tensor and the open file in which it is. */
interface Found {
  readonly tensor: PlacedTensor;
  readonly fileName: string;
  readonly file: FileSource;
  /** Where the data of the file begins. */
  readonly dataStart: number;
}

const singleFile = "model.safetensors";
const indexBytesMax = 100_000_000;
const filesMax = 10_000;
/** Names without a separator, so that an index leads to nothing outside of its folder. */
const fileNamePattern = /^[\w-][\w.-]{0,199}\.safetensors$/;

/**
 * Opens a folder and reads the headers of its files. Where both are there, the index counts, as it does for others' loaders.
 *
 * @throws MUSTER_ERR_MODEL_FOLDER_INVALID for a file that is missing or malformed, and for an index that does not say exactly what the files hold.
 */
export async function openModelFolder(path: string): Promise<ModelFolder> {
  const files: FileSource[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(files.map((file) => file.close()));
  };
  try {
    const index = await readIndex(path);
    const found = new Map<string, Found>();
    for (const fileName of index ? [...new Set(index.values())] : [singleFile]) {
      const file = await openNamed(path, fileName, index !== null);
      files.push(file);
      for (const one of await tensorsIn(fileName, file)) {
        const { name } = one.tensor;
        if (index && index.get(name) !== fileName)
          throw new Error(`${fileName} holds tensor ${labelOf(name)}, which ${modelIndexFile} does not say`);
        found.set(name, one);
      }
    }
    for (const [name, fileName] of index ?? [])
      if (!found.has(name)) throw new Error(`${fileName} lacks tensor ${labelOf(name)}, which ${modelIndexFile} names`);
    const tensors = new Map([...found].map(([name, { tensor }]) => [name, tensor]));
    return { tensors, close, read: readerOf(path, found) };
  } catch (error) {
    await close();
    throw errors.ModelFolderInvalid({ path, reason: messageOf(error) }, error);
  }
}

async function openNamed(path: string, fileName: string, isIndexed: boolean): Promise<FileSource> {
  try {
    return await openFileSource(join(path, fileName));
  } catch (error) {
    if (!isIndexed) throw new Error((await pickleReason(path)) ?? messageOf(error), { cause: error });
    if (!isAbsent(error)) throw error;
    throw new Error(`${modelIndexFile} names ${fileName}, which is not there; fetch the model again`, { cause: error });
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
}

async function tensorsIn(fileName: string, file: FileSource): Promise<readonly Found[]> {
  try {
    const start = new Uint8Array(lengthBytes);
    const headerBytes = headerBytesOf(start.subarray(0, await fillFrom(file, start, 0)), file.sizeBytes);
    const json = new Uint8Array(headerBytes);
    await fillFrom(file, json, lengthBytes);
    const dataStart = lengthBytes + headerBytes;
    const { tensors } = decodeSafetensorsHeader(json, file.sizeBytes - dataStart);
    return tensors.map((tensor) => ({ tensor, fileName, file, dataStart }));
  } catch (error) {
    throw new Error(`${fileName}: ${messageOf(error)}`, { cause: error });
  }
}

function readerOf(path: string, found: ReadonlyMap<string, Found>): ModelFolder["read"] {
  return async (name, target, fromBytes = 0) => {
    const one = found.get(name);
    const sizeBytes = one?.tensor.sizeBytes ?? 0;
    const end = fromBytes + target.length;
    if (!one || !Number.isSafeInteger(fromBytes) || fromBytes < 0 || end > sizeBytes) {
      const reason = `bytes [${fromBytes}, ${end}) of tensor ${labelOf(name)} are not there; it has ${sizeBytes}`;
      throw errors.ModelFolderInvalid({ path, reason });
    }
    const read = await fillFrom(one.file, target, one.dataStart + one.tensor.offsetBytes + fromBytes);
    if (read < target.length)
      throw errors.ModelFolderInvalid({ path, reason: `${one.fileName} became shorter while it was read` });
  };
}

/** The file that each tensor is in; `null` without an index. */
async function readIndex(path: string): Promise<ReadonlyMap<string, string> | null> {
  const file = await openFileSource(join(path, modelIndexFile)).catch((error: unknown) => {
    if (isAbsent(error)) return null;
    throw error;
  });
  if (!file) return null;
  try {
    if (file.sizeBytes > indexBytesMax)
      throw new Error(`${file.sizeBytes} bytes are over the limit of ${indexBytesMax}`);
    const bytes = new Uint8Array(file.sizeBytes);
    await fillFrom(file, bytes, 0);
    return weightMapOf(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new Error(`${modelIndexFile}: ${messageOf(error)}`, { cause: error });
  } finally {
    await file.close();
  }
}

function weightMapOf(text: string): ReadonlyMap<string, string> {
  const index: unknown = JSON.parse(text);
  const map = typeof index === "object" && index !== null && "weight_map" in index ? index.weight_map : null;
  if (typeof map !== "object" || map === null || Array.isArray(map)) throw new Error("weight_map is not an object");
  if (repeatsKey(text, index)) throw new Error("a key comes twice");
  const files = Object.entries(map).map(([name, fileName]): [string, string] => {
    if (typeof fileName !== "string" || !fileNamePattern.test(fileName))
      throw new Error(
        `tensor ${labelOf(name)} is in ${JSON.stringify(fileName)?.slice(0, 100)}, which is no name of a safetensors file`,
      );
    return [name, fileName];
  });
  const count = new Set(files.map(([, fileName]) => fileName)).size;
  if (count < 1 || count > filesMax) throw new Error(`it names ${count} files; 1 to ${filesMax} are read`);
  return new Map(files);
}
