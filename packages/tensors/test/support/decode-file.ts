import { decodeSafetensorsHeader, headerBytesOf, type SafetensorsHeader } from "../../src/index.ts";
import { lengthBytes } from "../../src/safetensors/header.ts";

/** Reads a whole file that is in memory. @throws MUSTER_ERR_SAFETENSORS_INVALID naming what is wrong with it. */
export function decodeSafetensors(file: Uint8Array): SafetensorsHeader & { readonly data: Uint8Array } {
  const headerEnd = lengthBytes + headerBytesOf(file.subarray(0, lengthBytes), file.length);
  const data = file.subarray(headerEnd);
  return { ...decodeSafetensorsHeader(file.subarray(lengthBytes, headerEnd), data.length), data };
}
