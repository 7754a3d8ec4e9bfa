/**
 * The bytes of every kind, written down: bytes of older senders must decode for ever. JSON stands as it is, packed bytes in hexadecimal. After a wanted
 * change of a schema, vitest rewrites the file with `-u`; a difference in lines that were there before is a break of the protocol and needs another kind.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage, type Kind } from "../src/index.ts";
import { messageKinds } from "../src/internal.ts";
import { sampleMessage } from "./samples.ts";

const file = new URL("golden/v1.json", import.meta.url);
/** What was said in JSON since was packed before. */
const earlier = new URL("golden/v1-packed.json", import.meta.url);
const read = (from: URL): Record<string, string> => JSON.parse(readFileSync(from, "utf8")) as Record<string, string>;
const golden = read(file);
const packed = read(earlier);

const written = (data: Uint8Array): string =>
  data[0] === 0x7b ? Buffer.from(data).toString() : Buffer.from(data).toString("hex");
const bytesOf = (text = ""): Uint8Array =>
  Uint8Array.from(text.startsWith("{") ? Buffer.from(text) : Buffer.from(text, "hex"));

describe("the golden bytes", () => {
  it("have a line for every kind of the table, and each is what the sample encodes to", async () => {
    const lines = messageKinds.map((kind) => [kind, written(encodeMessage(sampleMessage(kind)))]);
    const text = `${JSON.stringify(Object.fromEntries(lines), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot(file.pathname);
  });

  it.each(Object.keys(golden))("decode as %s", (kind) => {
    expect(decodeMessage(bytesOf(golden[kind]))).toEqual(sampleMessage(kind as Kind));
  });

  it.each(Object.keys(packed))("that are packed, of a sender before JSON, decode as %s", (kind) => {
    expect(golden[kind]).toMatch(/^\{/);
    expect(decodeMessage(bytesOf(packed[kind]))).toEqual(sampleMessage(kind as Kind));
  });
});
