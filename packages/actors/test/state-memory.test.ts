/** Training state that a checkpoint actor keeps in memory: how much memory it must have, and how long what it gives out can be read. */
import { makeTempDirectory } from "@muster/testkit";
import { expect, it } from "vitest";
import { StateMemory } from "../src/checkpoint/state-memory.ts";
import type { WorkTools } from "../src/replica/work.ts";
import { clock } from "./support/environment.ts";
import { ports } from "./support/roles.ts";
import { smallConfig } from "./support/small-config.ts";

const sections = [{ name: "weights", digest: "d", bytes: 100e6 }] as never;
const pull = { lineage: 0, version: 1, sections, holders: [] };

/** What it says of a version of 100 MB with so many MB of memory. */
async function saysWith(availableMegabytes: number, set: readonly string[]): Promise<string> {
  const tools = { environment: { clock }, identity: { job: "dates", id: "checkpoint-0" } } as unknown as WorkTools;
  const memory = new StateMemory(tools, { ...ports, availableMemory: () => availableMegabytes * 1e6 });
  const admission = { dataKey: new Uint8Array(32), config: smallConfig("/nowhere", set) };
  const error = await memory.take(pull, admission, new AbortController().signal).catch((cause: unknown) => cause);
  return error instanceof Error ? error.message : "taken";
}

it("needs room for the version that is served, the next one, and the one of which it has written shards", async () => {
  await expect(saysWith(200, [])).resolves.toMatch(/^two versions of the training state take 200 MB, more than 75 %/);
  const shards = ["checkpoint.shards=2", "replicas.checkpoint=2"];
  await expect(saysWith(300, shards)).resolves.toMatch(/^three versions of the training state take 300 MB/);
});

it("gives sections that can be read for as long as they are not released, whatever becomes of the order that they were taken for", async () => {
  const directory = await makeTempDirectory();
  const config = smallConfig(directory.path);
  const dataKey = new Uint8Array(32).fill(1);
  const store = { key: dataKey, job: "dates", socketDir: config.data.socketDirectory, tcpHost: null, slotBytes: 1024 };
  const [id, never] = [{ lineage: 0, version: 1 }, new AbortController().signal];
  const trainer = await ports.versionStore({ ...store, member: "policy-0" });
  const tools = { environment: { clock }, identity: { job: "dates", id: "checkpoint-0" } } as unknown as WorkTools;
  const memory = new StateMemory(tools, ports);
  const admission = { dataKey, config };
  try {
    const bytes = Uint8Array.of(1, 2, 3);
    const sections = (await trainer.publish(id, { weights: bytes, optimizer: bytes })) as never;
    const holders = [{ id: "policy-0", addresses: [...trainer.addresses] }];
    await memory.take({ ...id, sections, holders } as never, admission, never);
    const order = new AbortController();
    const kept = await memory.find({ ...id, sections, holders } as never, admission, order.signal);
    order.abort(new Error("the order was given up"));
    const into = new Uint8Array(2);
    const { optimizer } = kept?.bytes ?? {};
    if (!optimizer || optimizer instanceof Uint8Array) throw new Error("sections lie in memory of the data plane");
    await optimizer.copyTo(into, 1);
    expect([...into]).toEqual([2, 3]);
    kept?.release();
  } finally {
    await memory.close();
    await trainer.close();
    await directory.remove();
  }
});
