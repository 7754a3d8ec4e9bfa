/** What a test file entered, and how long it took, into a file of the folder that the environment names. */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect } from "vitest";

const began = Date.now();
const folder = process.env.MUSTER_MUTANTS_ENTERED;

afterAll(() => {
  if (!folder) return;
  const entered = [...(Reflect.get(globalThis, "entered") ?? [])];
  const note = { test: expect.getState().testPath, ms: Date.now() - began, entered };
  writeFileSync(join(folder, `${randomUUID()}.json`), JSON.stringify(note));
});
