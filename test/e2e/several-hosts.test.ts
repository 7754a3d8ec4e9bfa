/**
 * One job over two hosts: the second is a network namespace with a name, an address and a folder for sockets of its own, so that nothing
 * but TCP leads from one to the other.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openTestHosts, type TestHost, type TestHosts } from "@muster/runtime";
import { type ActorProcess, spawnActor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

const muster = fileURLToPath(new URL("../../packages/cli/bin/muster.mjs", import.meta.url));

let runs: Runs;
let network: TestHosts | { readonly missing: string };
const relays: Server[] = [];
beforeAll(async () => {
  runs = await openRuns();
  network = openTestHosts({ count: 1, gateway: true });
});
afterAll(async () => {
  for (const relay of relays) relay.close();
  await runs.close();
  if (!("missing" in network)) network.close();
});

/** The broker of a job listens on loopback; this lets it be reached at the address that other hosts see. */
async function relayTo(url: string, address: string): Promise<string> {
  const port = Number(new URL(url).port);
  const server = createServer((far) => {
    const near = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [far, near],
      [near, far],
    ] as const) {
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
    }
  });
  relays.push(server);
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  const bound = server.address();
  return `nats://${address}:${typeof bound === "object" ? bound?.port : 0}`;
}

/** Starts a replica on the other host. */
function startFar(host: TestHost, job: string, replica: readonly string[], connection: string): Promise<ActorProcess> {
  const command = [process.execPath, muster, ...replica, "--runs", runs.path, "--job", job, "--connection", connection];
  const setup = 'hostname far && mkdir -p "$0" && mount -t tmpfs none "$0" && exec "$@"';
  const { socketDirectory } = JSON.parse(readFileSync(join(runs.path, job, "job.json"), "utf8")).data;
  const inside = ["unshare", "--uts", "--mount", "sh", "-c", setup, socketDirectory, ...command];
  const args = [...host.wrapper.slice(1), ...inside];
  return spawnActor({ command: host.wrapper[0] ?? "ip", args });
}

describe("replicas on another host", () => {
  test("train and sample with the others: the final weights are those of training in one process", async (context) => {
    if ("missing" in network) {
      const reason = `SKIPPED: ${network.missing}`;
      process.emitWarning(reason);
      return context.skip(reason);
    }
    const [host] = network.hosts;
    const init = [
      "--set",
      "init_replicas.policy=1",
      "--set",
      "init_replicas.rollout=1",
      "--set",
      "data.tcp_host=10.214.77.0/24",
    ];
    const run = await runs.start("hosts", "--steps", "96", "--policy", "1", "--rollout", "1", ...init);
    await run.waitForEvent("job.started");
    const local = JSON.parse(readFileSync(join(run.directory, "connection.json"), "utf8"));
    const connection = join(runs.path, "far.json");
    const url = await relayTo(local.url, network.gateway);
    writeFileSync(connection, JSON.stringify({ ...local, url }), { mode: 0o600 });
    const replicas = [
      ["policy", "--id", "far-policy"],
      ["rollout", "--id", "far-0"],
      ["rollout", "--id", "far-1"],
    ];
    const far = await Promise.all(replicas.map((replica) => startFar(host as TestHost, run.job, replica, connection)));
    await run.waitForEvent("step.committed", ({ members }) => members === 2, 60_000);
    const summary = await run.ended();
    expect(run.events("step.committed").at(-1)).toMatchObject({ members: 2 });
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expect(failuresOf(summary)).toEqual([]);
    expectBalanced(summary);
    expect((await Promise.all(far.map(({ exited }) => exited))).map(({ code }) => code)).toEqual([0, 0, 0]);
  });
});
