/** Real processes: those of a node start one after another, and what the node owes meanwhile goes out between two starts. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger } from "@muster/base";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Keeper, type KeeperExit } from "../src/node/keeper.ts";
import { membersOf, startTicksOf } from "../src/node/proc.ts";
import { clock } from "./support/environment.ts";

let directory: TempDirectory;
let keeper: Keeper;
let started: string[];
let exits: KeeperExit[];
beforeEach(async () => {
  directory = await makeTempDirectory();
  started = [];
  exits = [];
  keeper = new Keeper({
    ...{ node: "node-0", clock, logger: silentLogger, directory: directory.path, env: process.env },
    commandOf: () => ["cat"],
    onStarted: ({ id, life }) => void started.push(`${id} ${life}`),
    onExit: (exit) => void exits.push(exit),
  });
});
afterEach(async () => {
  await keeper.close();
  await directory.remove();
});

const orderOf = (id: string, life: number) => ({ id, role: "rollout" as const, life, devices: null });
const ids = ["rollout-0", "rollout-1", "rollout-2", "rollout-3"];

it("lets the loop turn before each start, so that an answer or a heartbeat does not wait for all of them", async () => {
  const seen: number[] = [];
  const starts = ids.map((id) => keeper.start(orderOf(id, 1)));
  const turn = (): void => {
    seen.push(started.length);
    if (started.length < ids.length) setImmediate(turn);
  };
  turn();
  await Promise.all(starts);
  expect(started).toEqual(ids.map((id) => `${id} 1`));
  expect(seen).toEqual(expect.arrayContaining([0, 1, 2, 3]));
});

it("starts nothing that is told to end before its turn, and says that it ended", async () => {
  const starts = ids.map((id) => keeper.start(orderOf(id, 1)));
  keeper.end("rollout-2", "term");
  await Promise.all(starts);
  expect(started).toEqual(["rollout-0 1", "rollout-1 1", "rollout-3 1"]);
  expect(exits).toEqual([{ id: "rollout-2", life: 1, pid: 0, code: null, signal: null, oom: false }]);
  await keeper.start(orderOf("rollout-2", 2));
  expect(started.at(-1)).toBe("rollout-2 2");
});

it("starts the others when one can not be started", async () => {
  await keeper.close();
  keeper = new Keeper({
    ...{ node: "node-0", clock, logger: silentLogger, directory: directory.path, env: process.env },
    commandOf: (_, id) => (id === "rollout-0" ? ["/no/such/program"] : ["cat"]),
    onStarted: ({ id, life }) => void started.push(`${id} ${life}`),
    onExit: (exit) => void exits.push(exit),
  });
  await Promise.all(ids.map((id) => keeper.start(orderOf(id, 1))));
  expect(started).toEqual(["rollout-1 1", "rollout-2 1", "rollout-3 1"]);
  await waitFor(() => exits.length > 0, { what: "the end of what could not start" });
  expect(exits[0]).toMatchObject({ id: "rollout-0", life: 1, pid: 0 });
});

it("says that a rank 0 ended for which its host has no port, and goes on with the others", async () => {
  const master = { address: "192.0.2.1", port: 0 };
  const of = { size: 2, localRank: 0, localSize: 1, nodeRank: 0, isDue: true, master };
  const rank = { ...of, id: "rollout-0", role: "rollout" as const, rank: 0, life: 1 };
  const starts = [keeper.start({ ...orderOf("rollout-0", 1), rank }), keeper.start(orderOf("rollout-1", 1))];
  await Promise.all(starts);
  expect(started).toEqual(["rollout-1 1"]);
  const words = expect.stringContaining("no port of 192.0.2.1 could be reserved");
  expect(exits).toEqual([{ id: "rollout-0", life: 1, pid: 0, code: null, signal: null, oom: false, words }]);
});

it("starts nothing any more once it is closed", async () => {
  const starts = ids.map((id) => keeper.start(orderOf(id, 1)));
  await keeper.close();
  await Promise.all(starts);
  expect(started).toEqual([]);
});

it("says that a process has ended when its children have, too: until then they have its devices", async () => {
  await keeper.close();
  const left: number[] = [];
  keeper = new Keeper({
    ...{ node: "node-0", clock, logger: silentLogger, directory: directory.path, env: process.env },
    commandOf: () => ["sh", "-c", "sleep 600 & sleep 600 & echo $MUSTER_DEVICES $CUDA_VISIBLE_DEVICES >&2; exit 3"],
    onStarted: () => {},
    onExit: (exit) => {
      left.push(...membersOf(exit.pid));
      exits.push(exit);
    },
  });
  await keeper.start({ ...orderOf("rollout-0", 1), devices: ["2", "5"] });
  await waitFor(() => exits.length > 0, { what: "the end of a process and its children" });
  expect(exits).toMatchObject([{ id: "rollout-0", code: 3, words: expect.stringContaining("2,5 2,5") }]);
  expect(left).toEqual([]);
});

it.each([
  ["forked twice into a session of its own", "setsid"],
  ["did so with an empty environment", "env -i setsid"],
])("leaves nothing of a process behind, also what %s", async (_, setsid) => {
  await keeper.close();
  const pids = join(directory.path, "escaped");
  const escapes = `${setsid} -f sh -c '(sleep 600 & echo $! >> ${pids}; exec sleep 600) & echo $! >> ${pids}'`;
  const left: boolean[] = [];
  const escaped = (): readonly number[] =>
    existsSync(pids) ? readFileSync(pids, "utf8").split("\n").slice(0, -1).map(Number) : [];
  keeper = new Keeper({
    ...{ node: "node-0", clock, logger: silentLogger, directory: directory.path, env: process.env },
    commandOf: () => ["sh", "-c", `${escapes}; while [ "$(wc -l < ${pids} 2>&1)" != 2 ]; do :; done; exit 3`],
    onStarted: () => {},
    onExit: (exit) => {
      left.push(...escaped().map((pid) => startTicksOf(pid) !== null));
      exits.push(exit);
    },
  });
  await keeper.start(orderOf("rollout-0", 1));
  await waitFor(() => exits.length > 0, { what: "the end of a process and of those that left its group" });
  expect(escaped()).toHaveLength(2);
  expect(left).toEqual([false, false]);
});
