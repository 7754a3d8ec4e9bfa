/** The folder of a proof has the runs of that proof only. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { makeProofFolder } from "../../src/certify/certify.ts";

const parent = mkdtempSync(join(tmpdir(), "muster-proof-"));
afterEach(() => rmSync(parent, { recursive: true, force: true }));

it.each(["quiet", "killed"])("one with an earlier %s run is refused: it would be compared as if it were new", (run) => {
  const folder = join(parent, run, "proof");
  makeProofFolder(folder);
  makeProofFolder(folder);
  mkdirSync(join(folder, run));
  expect(() => makeProofFolder(folder)).toThrow(/--out.*proof.*another folder/);
});
