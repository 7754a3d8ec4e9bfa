/** One section of a checkpoint, read from one file or from several that follow each other. No byte of it is in memory twice. */
import { decodeSafetensorsHeader, headerBytesOf, type PlacedTensor } from "@muster/tensors";
import { optimizerTensor } from "./content.ts";
import { fill, type ReadableFile } from "./files.ts";
import type { Piece } from "./pieces.ts";

/** Bytes of a header's length. */
const lengthBytes = 8;

/** The section whose bytes a file holds; `null` for a file beside them. */
export function sectionOf(fileName: string): "weights" | "optimizer" | null {
  if (!fileName.endsWith(".safetensors")) return null;
  return fileName.startsWith("optimizer") ? "optimizer" : "weights";
}

/** Where the bytes of one file go. */
export interface FileTarget {
  /** Memory for a piece; `undefined` when it is not all data, and `take` wants it. */
  memoryOf(piece: Piece): Uint8Array | undefined;
  take(piece: Piece, content: Uint8Array): void;
  /** All pieces were read, and were as the manifest says. @throws MUSTER_ERR_SAFETENSORS_INVALID, or an error with what does not fit. */
  done(): void;
}

/** Gathers the files of one section. */
export class SectionReader {
  readonly bytes: Uint8Array;
  /** In order of their bytes, placed in the section. */
  readonly tensors: PlacedTensor[] = [];
  readonly #name: "weights" | "optimizer";
  #filled = 0;

  constructor(name: "weights" | "optimizer", bytes: number) {
    this.#name = name;
    this.bytes = new Uint8Array(bytes);
  }

  /** Prepares for the next file; `isOnly` when no other one follows or came before. @throws An error with what does not fit. */
  async next(fileName: string, file: ReadableFile, isOnly: boolean): Promise<FileTarget> {
    const { sizeBytes } = file.stat;
    const headerEnd = isOnly ? sizeBytes - this.bytes.length : await headerEndOf(file);
    const header = new Uint8Array(headerEnd);
    const at = this.#filled;
    const data = this.bytes.subarray(at, at + sizeBytes - headerEnd);
    if (data.length !== sizeBytes - headerEnd)
      throw new Misfit(`section ${this.#name} has more than its ${this.bytes.length} bytes with ${fileName}`);
    this.#filled += data.length;
    return {
      memoryOf: ({ from, bytes }) => {
        return from < headerEnd ? undefined : data.subarray(from - headerEnd, from - headerEnd + bytes);
      },
      take: ({ from }, content) => {
        if (from >= headerEnd) return;
        header.set(content.subarray(0, headerEnd - from), from);
        data.set(content.subarray(headerEnd - from), 0);
      },
      done: () => {
        const told = headerBytesOf(header.subarray(0, lengthBytes), sizeBytes) + lengthBytes;
        if (told !== headerEnd)
          throw new Misfit(`${fileName} has ${sizeBytes - told} bytes of section ${this.#name}, not ${data.length}`);
        this.#add(fileName, decodeSafetensorsHeader(header.subarray(lengthBytes), data.length).tensors, at);
      },
    };
  }

  /** The section is whole. @throws An error with what it lacks. */
  end(): void {
    if (this.#filled !== this.bytes.length)
      throw new Misfit(`section ${this.#name} has ${this.#filled} bytes, not ${this.bytes.length}`);
    if (new Set(this.tensors.map(({ name }) => name)).size !== this.tensors.length && this.#name === "weights")
      throw new Misfit("two shards hold a tensor of the same name");
  }

  #add(fileName: string, tensors: readonly PlacedTensor[], at: number): void {
    if (this.#name === "optimizer" && (tensors.length !== 1 || tensors[0]?.name !== optimizerTensor))
      throw new Misfit(`${fileName} must hold one tensor named ${optimizerTensor}`);
    for (const tensor of tensors) this.tensors.push({ ...tensor, offsetBytes: at + tensor.offsetBytes });
  }
}

/** Where the data of a file begins. */
export async function headerEndOf(file: ReadableFile): Promise<number> {
  const { sizeBytes } = file.stat;
  const start = new Uint8Array(Math.min(lengthBytes, sizeBytes));
  await fill(file, start, 0);
  return lengthBytes + headerBytesOf(start, sizeBytes);
}

/** A file does not fit what the manifest says of its section. */
export class Misfit extends Error {
  override readonly name = "Misfit";
}
