/** How much memory a checkpoint actor must have before it keeps training state. */
import { expect, it } from "vitest";
import { StateMemory } from "../src/checkpoint/state-memory.ts";
import type { WorkTools } from "../src/replica/work.ts";
import { clock } from "./support/environment.ts";
import { doors } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

const sections = [{ name: "weights", digest: "d", bytes: 100e6 }] as never;
const pull = { lineage: 0, version: 1, sections, holders: [] };

/** What it says of a version of 100 MB with so many MB of memory. */
async function saysWith(availableMegabytes: number, set: readonly string[]): Promise<string> {
  const tools = { environment: { clock }, identity: { job: "dates", id: "checkpoint-0" } } as unknown as WorkTools;
  const memory = new StateMemory(tools, { ...doors, availableMemory: () => availableMegabytes * 1e6 });
  const admission = { dataKey: new Uint8Array(32), config: smallConfig("/nowhere", set) };
  const error = await memory.take(pull, admission, new AbortController().signal).catch((cause: unknown) => cause);
  return error instanceof Error ? error.message : "taken";
}

it("needs room for the version that is served, the next one, and the one of which it has written shards", async () => {
  await expect(saysWith(200, [])).resolves.toMatch(/^two versions of the training state take 200 MB, more than 75 %/);
  const shards = ["checkpoint.shards=2", "replicas.checkpoint=2"];
  await expect(saysWith(300, shards)).resolves.toMatch(/^three versions of the training state take 300 MB/);
});
