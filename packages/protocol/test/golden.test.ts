/**
 * The bytes of every kind, written down: bytes of older senders must decode for ever. After a wanted change of a schema, vitest
 * rewrites the file with `-u`; a difference in lines that were there before is a break of the protocol and needs another kind.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage, messageKinds } from "../src/index.ts";
import { sampleMessage } from "./samples.ts";

const file = new URL("golden/v1.json", import.meta.url);
const golden = JSON.parse(readFileSync(file, "utf8")) as Record<string, string>;
const hexOf = (data: Uint8Array): string => Buffer.from(data).toString("hex");

describe("the golden bytes", () => {
  it("have a line for every kind of the table, and each is what the sample encodes to", async () => {
    const lines = messageKinds.map((kind) => [kind, hexOf(encodeMessage(sampleMessage(kind)))]);
    const text = `${JSON.stringify(Object.fromEntries(lines), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot(file.pathname);
  });

  it.each(Object.keys(golden))("decode as %s", (kind) => {
    expect(decodeMessage(Uint8Array.from(Buffer.from(golden[kind] ?? "", "hex")))).toEqual(
      sampleMessage(kind as "mesh.built"),
    );
  });
});
