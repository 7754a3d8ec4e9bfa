import { describe, expect, it } from "vitest";
import { type Body, decodeMessage, encodeMessage, flawOf, type Kind } from "../src/index.ts";
import { clipBody, messageKinds } from "../src/internal.ts";
import { sampleMessage } from "./samples.ts";

const messages = messageKinds.map(sampleMessage);

const long = "数据😀".repeat(5_000);
const texts = new Set([
  "reason",
  "cause",
  "detail",
  "evidence",
  "message",
  "stack",
  "frame",
  "asked",
  "prompt",
  "answer",
  "text",
  "error",
]);

type Path = readonly (string | number)[];

/** Paths of all strings in a value. */
function stringsIn(value: unknown, path: Path = []): readonly Path[] {
  if (typeof value === "string") return [path];
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return [];
  return Object.entries(value).flatMap(([key, inner]) => stringsIn(inner, [...path, key]));
}

function withLong(value: unknown, [key, ...rest]: Path): unknown {
  if (key === undefined) return long;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>;
  copy[key] = withLong(copy[key], rest);
  return copy;
}

const fields = messages.flatMap((message) =>
  stringsIn(message.body).map((path) => ({ message, path, where: [message.kind, ...path].join(".") })),
);
const isText = ({ path }: { readonly path: Path }): boolean => texts.has(String(path.at(-1)));

describe("what is said", () => {
  it.each(fields.filter(isText))("has $where within its bound, however long it was", ({ message, path }) => {
    const body = withLong(message.body, path) as Body<Kind>;
    expect(flawOf(message.kind, body)).toContain([message.kind, ...path].join("."));
    const clipped = clipBody(message.kind, body);
    expect(flawOf(message.kind, clipped)).toBeNull();
    const sent = { ...message, body: clipped } as typeof message;
    expect(decodeMessage(encodeMessage(sent)).kind).toBe(message.kind);
  });

  it.each(fields.filter((field) => !isText(field)))(
    "has $where as it is, and it is named when it does not fit",
    (field) => {
      const { message, path } = field;
      const body = withLong(message.body, path) as Body<Kind>;
      const clipped = clipBody(message.kind, body);
      if (path.at(-1) === "name" && flawOf(message.kind, clipped) === null) return; // the class of an error
      expect(clipped).toBe(body);
      const flaw = flawOf(message.kind, body);
      // The configuration is the one long string that is neither.
      if (flaw === null) expect([message.kind, ...path].join(".")).toBe("replica.registered.config");
      else expect(flaw).toContain([message.kind, ...path].join("."));
    },
  );

  it("is the same body when it fits", () => {
    for (const { kind, body } of messages) {
      expect(clipBody(kind, body)).toBe(body);
      expect(flawOf(kind, body)).toBeNull();
    }
  });
});
