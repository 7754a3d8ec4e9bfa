import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Coordinator } from "../src/coordinator.ts";
import { memoryJournal, openFileJournal } from "../src/journal/file-journal.ts";
import { emptyTopology, rulesDefault } from "../src/topology/state.ts";
import { testClock } from "./support/clock.ts";
import { openGateway } from "./support/gateway.ts";

const folders: string[] = [];

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "muster-gateway-"));
  folders.push(path);
  return path;
}

afterEach(() => {
  for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true });
});

const actor = { role_name: "actor", ip: "10.0.0.1", port: 1 };

/** What a folder would be after a kill: the files as they are, in another folder, for the first gateway has its own still. */
function copied(from: string): string {
  const to = folder();
  writeFileSync(join(to, "journal.jsonl"), readFileSync(join(from, "journal.jsonl")));
  return to;
}

test("whatever was answered is there after a kill, and nobody is dead for the time in between", async () => {
  const stateFolder = folder();
  const { gateway, call, clock } = await openGateway({ stateFolder });
  await call("POST /register", actor);
  await call("POST /register", { ...actor, port: 2 });
  await call("DELETE /unregister?role=actor&rank=0");
  await call("POST /send_weight_meta", { names: ["w"], dtypes: ["f32"], shapes: [[1]], group_name: "g" });
  await call("POST /acquire_lock", { name: "l", owner: "actor_1" });
  const before = (await call("GET /debug/topology")).body;
  const next = await openGateway({ stateFolder: copied(stateFolder) });
  await next.clock.advance(20_000);
  expect((await next.call("GET /heartbeat?role=actor&rank=1")).status).toBe(200);
  const after = (await next.call("GET /debug/topology")).body;
  expect({ ...after, locks: after.locks.length }).toEqual({ ...before, locks: 1 });
  expect((await next.call("POST /register", actor)).body.rank).toBe(0);
  await clock.advance(30_001);
  expect((await call("GET /health")).body.dead_nodes).toEqual(["actor_1"]);
  await Promise.all([gateway.close(), next.gateway.close()]);
});

test("a record that was cut off by a kill is dropped, and the file goes on whole", async () => {
  const stateFolder = folder();
  const first = await openGateway({ stateFolder });
  await first.call("POST /register", actor);
  await first.gateway.close();
  appendFileSync(join(stateFolder, "journal.jsonl"), '0badcafe {"now":1,"inp');
  const second = await openGateway({ stateFolder });
  await second.call("POST /register", { ...actor, port: 2 });
  await second.gateway.close();
  const third = await openGateway({ stateFolder });
  expect((await third.call("GET /topology")).body.world_size).toBe(2);
  await third.gateway.close();
});

test("a damaged record is refused by its line, and the file stays as it is", async () => {
  const stateFolder = folder();
  const first = await openGateway({ stateFolder });
  await first.call("POST /register", actor);
  await first.gateway.close();
  const path = join(stateFolder, "journal.jsonl");
  const damaged = readFileSync(path, "utf8").replace('"10.0.0.1"', '"10.0.0.2"');
  writeFileSync(path, damaged);
  await expect(openGateway({ stateFolder })).rejects.toThrow(/line 2 is damaged/);
  expect(readFileSync(path, "utf8")).toBe(damaged);
});

test("a folder has one gateway at a time", async () => {
  const stateFolder = folder();
  const { gateway } = await openGateway({ stateFolder });
  await expect(openGateway({ stateFolder })).rejects.toThrow(/in use by another gateway/);
  await gateway.close();
  await (await openGateway({ stateFolder })).gateway.close();
});

test("a journal that can not be written ends the answers, and says so once", async () => {
  const faults: unknown[] = [];
  const failing = { ...memoryJournal(), flush: () => Promise.reject(new Error("no space left on device")) };
  const [clock, rules] = [testClock(), rulesDefault];
  const coordinator = new Coordinator({
    ...{ clock, rules, journal: failing, state: emptyTopology },
    onFailure: (error) => faults.push(error),
  });
  await coordinator.start();
  const input = { kind: "meta.clear", updateId: "" } as const;
  await expect(coordinator.submit<"meta.clear">(input)).rejects.toThrow(/no space/);
  await expect(coordinator.read((state) => state.epoch)).rejects.toThrow(/no space/);
  expect(faults).toHaveLength(1);
});

test("a journal whose folder is gone takes no further record", async () => {
  const stateFolder = folder();
  const { journal } = await openFileJournal(stateFolder, rulesDefault);
  await journal.compact(emptyTopology);
  rmSync(stateFolder, { recursive: true });
  await expect(journal.compact(emptyTopology)).rejects.toThrow(/can not be used: ENOENT/);
  journal.append({ kind: "meta.clear", updateId: "" }, 0);
  await expect(journal.flush()).rejects.toThrow(/ENOENT/);
  await journal.close();
});
