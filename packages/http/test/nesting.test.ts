/** How deep JSON is nested, told without building anything of it. */
import { expect, it } from "vitest";
import { isNestedTooDeep, nestingMax } from "../src/index.ts";

const nested = (depth: number, inside = "1"): string =>
  `${'{"a":['.repeat(depth / 2)}${inside}${"]}".repeat(depth / 2)}`;

it.each([
  ["as deep as may be", nested(nestingMax), false],
  ["one pair deeper", nested(nestingMax + 2), true],
  ["thousands deep", nested(20_000), true],
  ["long and flat", `[${"[1],{},".repeat(10_000)}1]`, false],
  ["brackets in a text", JSON.stringify({ a: "[{".repeat(10_000) }), false],
  ["brackets in a text with quotes and backslashes", JSON.stringify({ a: '\\"[{\\\\'.repeat(10_000), b: "\\" }), false],
  ["brackets behind such a text", `{"a":"\\\\","b":${nested(200)}}`, true],
  ["brackets behind an escaped quote", `{"a":"\\"","b":${nested(200)}}`, true],
  ["a text without an end", `["${"[".repeat(1_000)}`, false],
  ["only ends", "]".repeat(1_000), false],
])("JSON of %s", (_, json, isTooDeep) => {
  expect(isNestedTooDeep(json)).toBe(isTooDeep);
});
