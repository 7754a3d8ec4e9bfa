import { appendFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
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
  const link = join(folder(), "link");
  symlinkSync(stateFolder, link);
  for (const path of [stateFolder, link])
    await expect(openGateway({ stateFolder: path })).rejects.toThrow(/in use by another gateway/);
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

test("what is flushed is on disk also when a snapshot comes between", async () => {
  const stateFolder = folder();
  const { journal } = await openFileJournal(stateFolder, rulesDefault);
  journal.append({ kind: "meta.clear", updateId: "a" }, 0);
  const flushed = journal.flush();
  const compacted = journal.compact(emptyTopology);
  journal.append({ kind: "meta.clear", updateId: "b" }, 0);
  const later = journal.flush();
  const text = () => readFileSync(join(stateFolder, "journal.jsonl"), "utf8");
  await flushed;
  expect(text()).toMatch(/"updateId":"a"|"snapshot"/);
  await Promise.all([compacted, later]);
  expect(text()).toMatch(/"snapshot".*\n.*"updateId":"b"/);
  await journal.close();
});

test("a journal begins anew by its bytes too, so that it can always be read", async () => {
  const { journal } = await openFileJournal(folder(), rulesDefault);
  const updateId = "x".repeat(2 ** 20);
  for (let i = 0; i < 63; i++) journal.append({ kind: "meta.clear", updateId }, 0);
  expect(journal.isLong).toBe(false);
  journal.append({ kind: "meta.clear", updateId }, 0);
  expect(journal.isLong).toBe(true);
  await journal.compact(emptyTopology);
  expect(journal.isLong).toBe(false);
  await journal.close();
});

test("a coordinator that stood still for longer than the time-out blames nobody for it, also after a restart", async () => {
  const stateFolder = folder();
  const rules = rulesDefault;
  const { state, journal } = await openFileJournal(stateFolder, rules);
  const base = testClock();
  let stoodMs = 0;
  const clock = { ...base, now: () => base.now() + stoodMs };
  const deaths: string[] = [];
  const coordinator = new Coordinator({ clock, rules, journal, state, onDeaths: (ids) => deaths.push(...ids) });
  await coordinator.start();
  const said = { role_name: "actor", rank: 0, world_size: null, ip: null, port: null, device_id: null, metadata: {} };
  await coordinator.submit<"register">({ kind: "register", ...said, incarnation: null });
  await coordinator.submit<"lock.acquire">({ kind: "lock.acquire", name: "l", owner: "actor_0", leaseMs: 40_000 });
  stoodMs = 60_000;
  // What came meanwhile is answered before the clock is looked at.
  await coordinator.expire();
  const beat = { kind: "heartbeat", role: "actor", rank: 0, incarnation: null } as const;
  await coordinator.submit<"heartbeat">(beat);
  await base.advance(1_000);
  expect(deaths).toEqual([]);
  expect(coordinator.peek().locks.get("l")?.owner).toBe("actor_0");
  const kept = await coordinator.read((now) => now);
  const again = await openFileJournal(copied(stateFolder), rules);
  expect(again.state.locks).toEqual(kept.locks);
  await again.journal.close();
  await base.advance(30_500);
  await expect.poll(() => deaths).toEqual(["actor_0"]);
  await coordinator.close();
});
