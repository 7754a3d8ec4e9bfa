/** Sections that may be larger than a buffer of JavaScript. */
import type { SectionBytes } from "@muster/base";
import { errors } from "./errors.ts";

/** Blocks of this size are digested one by one, so pieces end where blocks do. */
const blockBytes = 256 * 1024;

/** The pieces of a section. Pure. @throws MUSTER_ERR_NATIVE_OPTION_INVALID for one that ends within a block and is not the last */
export function piecesOf(section: string, bytes: SectionBytes): readonly Uint8Array[] {
  if (bytes instanceof Uint8Array) return [bytes];
  const wrong = bytes.slice(0, -1).find((piece) => piece.byteLength % blockBytes !== 0);
  if (wrong === undefined) return bytes;
  throw errors.NativeOptionInvalid({
    field: `sections.${section}`,
    value: `a piece of ${wrong.byteLength} bytes`,
    fix: `give pieces of a multiple of ${blockBytes} bytes, but for the last`,
  });
}
