/** The digest by which a program knows whether a journal was decided by its own rules. */
import { mkdirSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { makeTempDirectory } from "@muster/testkit";
import { expect, it, onTestFinished } from "vitest";
import { digestOfModules } from "../src/controller/rules.ts";

it("changes with the code of any module, also in folders below, and with no comment, indentation or other file", async () => {
  const folder = await makeTempDirectory();
  onTestFinished(() => folder.remove());
  mkdirSync(`${folder.path}/below`);
  const write = (path: string, text: string) => writeFileSync(`${folder.path}/${path}`, text);
  const url = pathToFileURL(`${folder.path}/`);
  const digest = () => digestOfModules([{ name: "machines", url }]);
  write("one.ts", "export const one = 1;\n");
  write("below/two.ts", "export const two = 2;\n");
  const first = digest();
  expect(first).toMatch(/^[0-9a-f]{32}$/);
  write("one.ts", "// a word\n\n  export const one = 1;\n");
  write("notes.md", "a word");
  write("one.d.ts", "export declare const one: number;");
  expect(digest()).toBe(first);
  write("below/two.ts", "export const two = 3;\n");
  const second = digest();
  expect(second).not.toBe(first);
  write("one.ts", "export const one = 2;\n");
  expect(new Set([first, second, digest()]).size).toBe(3);
  expect(digestOfModules([{ name: "machines", url, only: /^one/ }])).not.toBe(digest());
});
