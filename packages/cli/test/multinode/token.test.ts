/** The join token: made once, kept for its owner, taken from one place only. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { givenToken, masterToken } from "../../src/multinode/token.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "muster-token-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a master makes one in its run, for its owner alone, says it, and has the same when it comes again", () => {
  const kept = join(folder, "join.token");
  const token = masterToken({ file: undefined, env: {} }, kept);
  expect(token.way).toEqual({ env: [`MUSTER_JOIN_TOKEN=${token.text}`], args: [] });
  expect(statSync(kept).mode & 0o777).toBe(0o600);
  expect(masterToken({ file: undefined, env: {} }, kept).text).toBe(token.text);
});

test("a file that was named is made, and its text is not said", () => {
  const file = join(folder, "exp1.token");
  const token = masterToken({ file, env: {} }, join(folder, "join.token"));
  expect(token.way).toEqual({ env: [], args: ["--join-token-file", file] });
  expect(givenToken({ file, env: {} })).toBe(readFileSync(file, "utf8").trim());
});

test("a token that others can read, is too short, is missing or comes twice is refused with the way out", () => {
  const file = join(folder, "exp1.token");
  masterToken({ file, env: {} }, file);
  const env = { MUSTER_JOIN_TOKEN: "a".repeat(32) };
  expect(() => givenToken({ file, env })).toThrow(/--join-token-file: .* is given, and so is MUSTER_JOIN_TOKEN/);
  expect(() => givenToken({ file: undefined, env: {} })).toThrow(/set MUSTER_JOIN_TOKEN, or name its file/);
  expect(() => givenToken({ file: undefined, env: { MUSTER_JOIN_TOKEN: "short" } })).toThrow(
    /MUSTER_JOIN_TOKEN: a join token has 32 to 256 .* this one has 5 characters.*openssl rand -hex 32/,
  );
  chmodSync(file, 0o644);
  expect(() => givenToken({ file, env: {} })).toThrow(/chmod 600/);
});
