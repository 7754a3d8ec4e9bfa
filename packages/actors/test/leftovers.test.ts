/** Leftovers are real processes here: a shell in a group of its own, and a child that outlives it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { silentLogger } from "@muster/base";
import { isOfLife, keptLimitOf, lifeWords } from "@muster/engine";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { drawMark, endLeftover, markVariable, type ProcessNote, ProcessNotes } from "../src/node/leftovers.ts";
import { escapedFrom, membersOf, startTicksOf } from "../src/node/proc.ts";
import { clock } from "./support/environment.ts";

let directory: TempDirectory;
let notes: ProcessNotes;
const shells: ChildProcess[] = [];
beforeEach(async () => {
  directory = await makeTempDirectory();
  notes = new ProcessNotes(directory.path);
});
afterEach(async () => {
  for (const { pid = 0 } of shells.splice(0)) if (membersOf(pid).length > 0) process.kill(-pid, "SIGKILL");
  await directory.remove();
});

/** Starts a shell with a child and writes it down; the shell ends when its standard input does, the child does not. */
async function replica(environment: NodeJS.ProcessEnv, mark: string, child = "sleep 600 &") {
  const words = ["sh", "-c", `${child}\necho started; read -r word`];
  const [program = "", ...args] = environment[markVariable] === mark ? lifeWords(mark, words) : words;
  const shell = spawn(program, args, {
    stdio: ["pipe", "pipe", "ignore"],
    detached: true,
    env: { ...process.env, ...environment },
  });
  shells.push(shell);
  const { pid = 0 } = shell;
  await once(shell.stdout, "data");
  notes.write({ id: "rollout-0", node: "node-0", pid, mark, devices: ["0", "1"] });
  const note = notes.of("rollout-0");
  if (note === null) throw new Error("the shell was not written down");
  const end = async (): Promise<void> => {
    shell.stdin.end();
    await once(shell, "exit");
  };
  return { pid, note, end };
}

/** Ends a leftover. @returns What was warned of. */
async function endOf(note: ProcessNote): Promise<readonly unknown[]> {
  const warnings: unknown[] = [];
  await endLeftover(note, {
    clock,
    logger: { ...silentLogger, warn: (fields: unknown) => void warnings.push(fields) },
  });
  return warnings;
}

describe("what an earlier life left", () => {
  it("ends with its group", async () => {
    const mark = drawMark();
    const { pid, note } = await replica({ [markVariable]: mark }, mark);
    expect(membersOf(pid)).toHaveLength(2);
    expect(await endOf(note)).toEqual([]);
    expect(membersOf(pid)).toEqual([]);
  });

  it.each([
    ["a session of its own", "setsid -f sleep 600"],
    ["a session of its own with an empty environment", "env -i setsid -f sleep 600"],
  ])("ends when all that is left is in %s", async (_, child) => {
    const mark = drawMark();
    const { note, end } = await replica({ [markVariable]: mark }, mark, child);
    await end();
    // `setsid -f` returns before its child has left the group.
    const isMeant = (pid: number): boolean => isOfLife(keptLimitOf(pid), mark);
    const find = () => (membersOf(note.pid).length === 0 ? escapedFrom(note.pid, isMeant) : []);
    const escaped = await waitFor(() => (find().length === 1 ? find() : null), {
      what: "a child in a session of its own",
      timeoutMs: 5_000,
    });
    expect(await endOf(note)).toEqual([]);
    expect(escaped.map(startTicksOf)).toEqual([null]);
  });

  it("ends when only children of the replica are left, because they carry its mark", async () => {
    const mark = drawMark();
    const { pid, note, end } = await replica({ [markVariable]: mark }, mark);
    await end();
    expect(membersOf(pid)).toHaveLength(1);
    expect(await endOf(note)).toEqual([]);
    expect(membersOf(pid)).toEqual([]);
  });

  it.each([
    ["another life's mark", { [markVariable]: drawMark() }],
    ["no mark", {}],
  ])("is left alone and named when the group without its first process has %s", async (_, environment) => {
    const { pid, note, end } = await replica(environment, drawMark());
    await end();
    const members = membersOf(pid);
    expect(await endOf(note)).toEqual([{ id: "rollout-0", group: pid, members }]);
    expect(membersOf(pid)).toEqual(members);
  });

  it("is nothing when a later process has the number, whatever mark it carries", async () => {
    const mark = drawMark();
    const { pid, note } = await replica({ [markVariable]: mark }, mark);
    const members = membersOf(pid);
    expect(await endOf({ ...note, startTicks: note.startTicks - 1 })).toEqual([]);
    expect(membersOf(pid)).toEqual(members);
  });
});

describe("the processes in the way of a new one", () => {
  it("are the earlier one of its replica, and whoever has one of its devices", () => {
    const note = { node: "node-0", pid: process.pid, mark: drawMark() };
    notes.write({ ...note, id: "rollout-0", devices: ["0", "1"] });
    notes.write({ ...note, id: "rollout-1", devices: ["2"], node: "node-1" });
    notes.write({ ...note, id: "policy-0", devices: [] });
    const inTheWay = (id: string, ...devices: readonly string[]) =>
      notes.inTheWayOf(id, devices).map((each) => each.id);
    expect(inTheWay("rollout-0")).toEqual(["rollout-0"]);
    expect(inTheWay("rollout-7")).toEqual([]);
    expect(inTheWay("policy-0", "2", "3").toSorted()).toEqual(["policy-0", "rollout-1"]);
    expect(inTheWay("rollout-7", "1", "2").toSorted()).toEqual(["rollout-0", "rollout-1"]);
  });
});
