/**
 * What runs for minutes, and starts many processes, ends on SIGTERM within five seconds whatever it does, and leaves no process behind. Most of the
 * time is that of jobs that begin.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { makeTempDirectory, processesNaming, type TempDirectory, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildOnce, root } from "./support/muster.ts";

const timeout = 120_000;
const endMs = 5_000;

let folder: TempDirectory;
beforeAll(async () => {
  buildOnce();
  folder = await makeTempDirectory();
}, 120_000);
afterAll(async () => {
  for (const { pid } of processesNaming(folder.path)) process.kill(pid, "SIGKILL");
  await folder.remove();
});

function start(args: readonly string[]) {
  const child = spawn(process.execPath, [join(root, "packages/cli/bin/muster.mjs"), ...args], {
    cwd: root,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  return { child, said: () => said };
}

/** Parent and state of a process; `null` when there is none. */
function statOf(pid: number): { readonly parent: number; readonly state: string } | null {
  try {
    const [state = "", parent = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
    return { parent: Number(parent), state };
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return null;
    throw error;
  }
}

/** A process and all that it started, and those started. */
function familyOf(pid: number): readonly number[] {
  const all = readdirSync("/proc").map(Number).filter(Number.isInteger);
  const parents = new Map(all.map((one) => [one, statOf(one)?.parent]));
  const family = [pid];
  for (const member of family) family.push(...all.filter((one) => parents.get(one) === member));
  return family;
}

/** Waits until a command and what it started are so many processes. */
const untilFamily = ({ child, said }: ReturnType<typeof start>, count: number) =>
  waitFor(() => familyOf(child.pid ?? 0).length >= count, { what: "its processes", timeoutMs: 60_000, detail: said });

const lives = (pid: number): boolean => (statOf(pid)?.state ?? "Z") !== "Z";

/** Ends it, and fails when it takes too long or something of it stays. */
async function terminate(child: ChildProcess): Promise<void> {
  const family = familyOf(child.pid ?? 0);
  const ended = once(child, "exit");
  const fromMs = performance.now();
  child.kill("SIGTERM");
  await ended;
  expect(performance.now() - fromMs).toBeLessThan(endMs);
  const ours = () => processesNaming(folder.path).map(({ pid, args }) => `${pid} ${args.join(" ")}`);
  const left = () => [...family.filter(lives), ...ours()];
  await waitFor(() => left().length === 0, { what: "no process of it left", timeoutMs: endMs, detail: left });
}

/** When a command is ended: once it has said something. */
interface Moment {
  readonly when: string;
  readonly args: readonly string[];
  readonly said: RegExp;
}

describe("muster chaos", () => {
  const small = ["batch.groups_per_step=16", "evaluation.prompts=16"].flatMap((one) => ["--set", one]);
  const chaos = (job: string, ...args: string[]) =>
    start([
      "chaos",
      "--runs",
      folder.path,
      "--job",
      job,
      "--seed",
      "7",
      "--policy",
      "2",
      "--rollout",
      "2",
      ...small,
      ...args,
    ]);

  const moments: readonly Moment[] = [
    { when: "while a replica is frozen", args: ["--faults", "freeze.rollout", "--minutes", "5"], said: /^#1 freeze/m },
    { when: "while its broker is away", args: ["--faults", "broker", "--minutes", "5"], said: /^#1 /m },
    { when: "while it waits to be steady", args: ["--faults", "kill", "--minutes", "0.05"], said: /^\d+ faults? in/m },
    { when: "in its quiet run", args: ["--faults", "kill.rollout", "--minutes", "0.02"], said: /^quiet run/m },
  ];
  /** Number of the commit in continuous integration, which tries one moment at a time. */
  const turn = process.env.MUSTER_CI_TURN;
  const due = turn === undefined ? moments : moments.filter((_, i) => Number(turn) % moments.length === i);

  test("ends while its job begins", { timeout }, async () => {
    const run = chaos("begins");
    await untilFamily(run, 3);
    await terminate(run.child);
  });

  test.each(due)("ends $when", { timeout }, async ({ when, args, said }) => {
    const run = chaos(when.replaceAll(" ", "-"), ...args);
    await waitFor(() => said.test(run.said()), { what: String(said), timeoutMs: 90_000, detail: run.said });
    if (when === "in its quiet run") await untilFamily(run, 6);
    await terminate(run.child);
  });
});

test.each([
  ["weights", ["bench", "weights", "--no-peers", "--world", "4", "--size", "64", "--rounds", "1000"]],
  ["allreduce", ["bench", "allreduce", "--no-peers", "--world", "4", "--size", "16", "--rounds", "1000"]],
])("muster bench %s ends in the middle of its rounds", { timeout }, async (_, args) => {
  const run = start(args);
  await untilFamily(run, 5);
  await terminate(run.child);
});
