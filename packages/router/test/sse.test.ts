import { expect, test } from "vitest";
import { withoutMember } from "../src/core/json-member.ts";
import { EventSplitter } from "../src/core/sse.ts";

const textsOf = (events: readonly Buffer[]): string[] => events.map((event) => event.toString());

test.each([1, 2, 3, 5, 7, 100])("events are the same when they come in pieces of %i bytes", (size) => {
  const text = 'data: {"a":1}\n\n: comment\r\n\r\ndata: x\ndata: y\r\n\ndata: last';
  const splitter = new EventSplitter();
  const events: Buffer[] = [];
  for (let at = 0; at < text.length; at += size) events.push(...splitter.push(Buffer.from(text.slice(at, at + size))));
  expect(textsOf(events)).toEqual(['data: {"a":1}\n\n', ": comment\r\n\r\n", "data: x\ndata: y\r\n\n"]);
  expect(splitter.waiting).toBe("data: last".length);
  expect(splitter.rest()?.toString()).toBe("data: last");
  expect([splitter.waiting, splitter.rest()]).toEqual([0, null]);
});

test("a long event in many pieces is looked at once, not once for each piece", () => {
  let looked = 0;
  const splitter = new EventSplitter();
  const piece = Buffer.alloc(64, "x");
  const search = piece.indexOf.bind(piece);
  piece.indexOf = ((value: number, from?: number) => {
    looked += piece.length - (from ?? 0);
    return search(value, from);
  }) as typeof piece.indexOf;
  const concat = Buffer.concat;
  let copied = 0;
  Buffer.concat = (list, length) => {
    const whole = concat(list, length);
    copied += whole.length;
    return whole;
  };
  try {
    for (let i = 0; i < 10_000; i++) splitter.push(piece);
    expect(splitter.push(Buffer.from("\n\n"))[0]).toHaveLength(640_002);
  } finally {
    Buffer.concat = concat;
  }
  expect(looked).toBe(640_000);
  expect(copied).toBe(640_002);
});

test.each([
  ['{"muster":{"a":[1,"}"]},"seed":12345678901234567890}', '{"seed":12345678901234567890}'],
  ['{ "seed" : 9007199254740993 , "muster" : {} }', '{ "seed" : 9007199254740993 }'],
  ['{"a":{"muster":1},"m\\u0075ster":2,"b":"\\",muster"}', '{"a":{"muster":1},"b":"\\",muster"}'],
  ['{"muster":1}', "{}"],
  ["{}", "{}"],
])("a member is taken out of %s and the rest stays as it was written", (json, left) => {
  expect(withoutMember(Buffer.from(json), "muster").toString()).toBe(left);
});
