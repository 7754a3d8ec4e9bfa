/** Two jobs at once on one broker: each comes to the weights of its quiet run, and nobody of the one reaches the other. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ActorProcess, type JobRun, processesNaming, spawnMuster, waitFor } from "@muster/testkit";
import { connectNats, type ServerCredentials } from "@muster/transport";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { digestOfLocalTraining, expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

interface Broker {
  readonly url: string;
  readonly users: Readonly<Record<string, string>>;
}

const jobs = ["left", "right"] as const;
const small = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];

let runs: Runs;
let server: ActorProcess;
let broker: Broker;
beforeAll(async () => {
  runs = await openRuns();
  const named = jobs.flatMap((job) => ["--job", job]);
  server = await spawnMuster(["broker", ...named, "--directory", join(runs.path, "broker"), "--json"]);
  const line = await waitFor(() => server.lines.find((text) => text.startsWith("{")), {
    what: "the broker",
    detail: () => server.lines,
  });
  broker = JSON.parse(line);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  server.signal("SIGTERM");
  await server.exited;
  await runs.close();
});

function usersOf(job: string): ServerCredentials {
  return JSON.parse(readFileSync(broker.users[job] ?? "", "utf8"));
}

const isServer = ({ args }: { readonly args: readonly string[] }): boolean => args[0]?.endsWith("nats-server") ?? false;

/** Starts a job on the broker; the environment is the command's own. */
async function start(job: string, seed: number): Promise<JobRun> {
  vi.stubEnv("MUSTER_NATS_URL", broker.url);
  vi.stubEnv("MUSTER_NATS_CREDENTIALS", broker.users[job] ?? "");
  return await runs.start(job, "--steps", "30", "--seed", String(seed), ...small);
}

test("two jobs at once come to the weights of their quiet runs, though their broker is killed, and are listed beside each other", async () => {
  const [left, right] = [await start("left", 1), await start("right", 2)];
  // Replicas have the same names in both: the death of the one is nobody's of the other. It comes at once, for the job that began first may be far by the time
  // that the other has begun.
  await left.waitForEvent("step.committed", undefined, 60_000);
  process.kill(left.pidOf("rollout-0"), "SIGKILL");
  await right.waitForEvent("step.committed", undefined, 60_000);
  for (const { pid } of processesNaming(join(runs.path, "broker")).filter(isServer)) process.kill(pid, "SIGKILL");
  await server.waitForLine("nats-server ended with SIGKILL; it is started again");
  const listed = await runs.muster("jobs", "--json");
  await listed.exited;
  const states: readonly { readonly job: string }[] = JSON.parse(listed.lines.at(-1) ?? "[]");
  expect(states.map(({ job }) => job).sort()).toEqual([...jobs]);
  const [one, two] = [await left.ended(), await right.ended()];
  expect(one.weights_hash).toBe(await digestOfLocalTraining(left));
  expect(two.weights_hash).toBe(await digestOfLocalTraining(right));
  expect(one.weights_hash).not.toBe(two.weights_hash);
  for (const summary of [one, two]) expectBalanced(summary);
  expect(left.events("member.died").map(({ id }) => id)).toEqual(["rollout-0"]);
  expect(failuresOf(two)).toEqual([]);
});

test("nobody of one job hears or says anything of the other", async () => {
  for (const role of ["operator", "rollout", "controller"] as const) {
    const credentials = usersOf("left")[role];
    const transport = await connectNats({
      url: broker.url,
      job: "right",
      credentials,
      name: `${role}.spy.i1`,
      connectTimeoutMs: 5_000,
    });
    try {
      const subject = role === "controller" ? "muster.right.journal" : `muster.right.reports.${role}.spy.job.stop`;
      const said = transport.publish(subject, new Uint8Array([1]), { msgId: `${role}-1`, timeoutMs: 1_000 });
      await expect(said).rejects.toThrow();
      await expect(transport.usage("journal")).rejects.toThrow();
    } finally {
      await transport.close();
    }
  }
  const right = await connectNats({
    url: broker.url,
    job: "right",
    credentials: usersOf("right").controller,
    name: "controller.look.i1",
    connectTimeoutMs: 5_000,
  });
  try {
    for await (const { data } of right.journal().read(1)) expect(data.byteLength).toBeGreaterThan(1);
  } finally {
    await right.close();
  }
});
