/** Devices on real processes: each has its own for itself, through deaths of it, of the controller and of its node. The devices need not exist. */
import { readFileSync } from "node:fs";
import { type JobRun, processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** Gives a command to the job. @returns Exit code and output. */
async function give(run: JobRun, command: string, ...args: string[]) {
  const operator = await runs.muster(command, "--job", run.job, ...args);
  const { code } = await operator.exited;
  return { code, said: operator.lines.join("\n") };
}

interface DeviceReport {
  readonly pid: number;
  readonly id: string;
  readonly devices: string | undefined;
}

/** What the processes of replicas were told, by the kernel's word. */
function seen(): readonly DeviceReport[] {
  return processesNaming(runs.path).flatMap(({ pid, args }) => {
    const id = args[args.indexOf("--id") + 1] ?? "";
    if (!/^(policy|rollout|checkpoint)-/.test(id)) return [];
    const variables = new Map(environOf(pid).map((line) => line.split("=", 2) as [string, string]));
    expect(variables.get("CUDA_VISIBLE_DEVICES")).toBe(variables.get("MUSTER_DEVICES"));
    return [{ pid, id, devices: variables.get("CUDA_VISIBLE_DEVICES") }];
  });
}

/** None when the process has ended since it was listed. */
function environOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return [];
    throw error;
  }
}

/** Waits until these replicas have a process each, and nobody has what another has. */
async function holders(...ids: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const isThere = () => ids.every((id) => seen().some((each) => each.id === id && each.devices !== undefined));
  await waitFor(isThere, { what: `processes of ${ids.join(", ")}`, timeoutMs: 30_000, detail: () => seen() });
  const all = seen().filter(({ devices }) => devices !== undefined);
  const named = all.flatMap(({ devices = "" }) => devices.split(",").filter((device) => device !== ""));
  expect(new Set(named).size, JSON.stringify(all)).toBe(named.length);
  return Object.fromEntries(all.map(({ id, devices = "" }) => [id, devices]));
}

test("each process has devices of its own through deaths and scaling; who finds none waits, with a reason that the operator reads", async () => {
  const asked = [
    "init_replicas.policy=1",
    "devices.policy=1",
    "devices.rollout=2",
    "timing.heartbeat_interval=500ms",
    "timing.dead_after=4s",
  ];
  const set = asked.flatMap((one) => ["--set", one]);
  const run = await runs.start(
    "devices",
    "--steps",
    "100000",
    "--policy",
    "1",
    "--rollout",
    "2",
    "--devices",
    "0-3,7-9",
    ...set,
  );
  await run.waitForEvent("step.committed");
  const first = await holders("policy-0", "rollout-0", "rollout-1", "checkpoint-0");
  expect(first).toEqual({ "policy-0": "0", "rollout-0": "1,2", "rollout-1": "3,7", "checkpoint-0": "" });

  const life = (id: string) => run.events("member.joined").filter((event) => event.id === id).length;
  const before = life("rollout-0");
  for (const { pid, id } of seen()) if (id === "rollout-0") process.kill(pid, "SIGKILL");
  for (const { pid, args } of processesNaming(runs.path)) if (args.includes("controller")) process.kill(pid, "SIGKILL");
  await waitFor(() => life("rollout-0") > before, { what: "the next life of rollout-0", timeoutMs: 30_000 });
  expect(await holders("policy-0", "rollout-0", "rollout-1")).toEqual(first);

  expect((await give(run, "scale", "rollout=4", "--no-wait")).code).toBe(0);
  const alarm = await run.waitForEvent("alarm.raised", ({ alarm: what }) => what === "capacity", 30_000);
  expect(alarm.detail).toContain(
    "rollout: 1 waits for 2 devices of one node (devices.rollout = 2; free: node-0 0 of 7); start a node with free devices",
  );
  expect((await give(run, "status")).said).toMatch(/missing +rollout: 1 waits for 2 devices/);
  expect(await holders("rollout-2")).toEqual({ ...first, "rollout-2": "8,9" });

  const more = await runs.muster("node", "--job", run.job, "--id", "more", "--devices", "10,11");
  expect(await holders("rollout-3")).toEqual({ ...first, "rollout-2": "8,9", "rollout-3": "10,11" });
  const twice = await runs.muster("node", "--job", run.job, "--id", "twice", "--devices", "12,9");
  expect((await twice.exited).code).toBe(2);
  expect(twice.lines.join("\n")).toMatch(
    /devices = 12,9: 9 of \S+ belongs to node-0; give the nodes of one host different/,
  );

  expect((await give(run, "stop")).code).toBe(0);
  await more.exited;
  expect(await run.ended()).toMatchObject({ lost: 0, doubled: 0 });
}, 120_000);

test("devices that cannot be are refused with the field, the value and the way out, before anything runs", async () => {
  const refusalOf = async (command: string, ...args: string[]) => {
    const process = await runs.muster(command, ...args);
    expect((await process.exited).code).toBe(2);
    return process.lines.join("\n");
  };
  const node = (devices: string) => refusalOf("node", "--job", "nowhere", "--devices", devices);
  expect(await node("0,1,0-2")).toContain("names device 0 twice; name each device once");
  expect(await node("0,one")).toContain('has "one", which is no device; use numbers such as 0,1,2,3 or 0-3');
  const job = await refusalOf("run", "jobs/dates.toml", "--set", "devices.rollout=-1");
  expect(job).toContain("devices.rollout");
}, 60_000);
