/**
 * Weights from actors to rollouts, actor_fwd and reference, by processes that use nothing but the Python client, while the coordinator, a
 * source and a receiver are killed. Needs up to half a minute: a dozen processes start one after the other on a shared machine.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pythonThatRuns } from "@muster/testkit";
import { afterEach, beforeAll, expect, test } from "vitest";
import { buildOnce, type RunningMuster, root, startMuster } from "./support/muster.ts";

const children: ChildProcess[] = [];
const gateways: RunningMuster[] = [];
const state = mkdtempSync(join(tmpdir(), "muster-flows-"));

beforeAll(buildOnce, 120_000);
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const gateway of gateways.splice(0)) {
    gateway.kill("SIGKILL");
    await gateway.ended;
  }
  rmSync(state, { recursive: true, force: true });
});

/** A process of a role and what it said. */
interface Role {
  readonly said: readonly string[];
  readonly kill: () => void;
}

function startRole({ python, backend }: { python: string; backend: string }, args: readonly string[]): Role {
  const program = join(root, "packages/cli/test/support/dcs-process.py");
  const own = { PYTHONPATH: join(root, "python/muster_dcs"), PYTHONDONTWRITEBYTECODE: "1", DCS_BACKEND: backend };
  const child = spawn(python, [program, ...args], {
    env: { ...process.env, ...own },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  const said: string[] = [];
  let rest = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split("\n");
      rest = lines.pop() ?? "";
      said.push(...lines);
    });
  return { said, kill: () => void child.kill("SIGKILL") };
}

async function startGateway(port: string): Promise<string> {
  const gateway = startMuster([
    ...["gateway", "--json", "--port", port],
    "--state",
    state,
    "--heartbeat-timeout",
    "2s",
  ]);
  gateways.push(gateway);
  await until(() => gateway.stdout().includes("\n"), gateway.stderr);
  return JSON.parse(gateway.stdout()).url;
}

async function until(check: () => boolean, what: () => string): Promise<void> {
  const end = performance.now() + 40_000;
  while (!check()) {
    if (performance.now() > end) throw new Error(`it never happened: ${what()}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The newest version that a process said it holds. */
const heldBy = ({ said }: Role): number =>
  Math.max(0, ...said.map((line) => Number(/^holds (\d+)$/.exec(line)?.[1] ?? 0)));

async function allHoldMore(roles: readonly Role[]): Promise<void> {
  const newest = Math.max(...roles.map(heldBy));
  const text = () => roles.map(({ said }) => said.slice(-4).join("|")).join("\n");
  await until(() => roles.every((role) => heldBy(role) > newest), text);
}

const withGloo = pythonThatRuns("import torch.distributed as d; d.ProcessGroupGloo");
test.for(["tcp", "gloo"])(
  "over %s nobody has a torn or mixed version when coordinator, source and receiver are killed midway",
  {
    timeout: 180_000,
  },
  async (backend, context) => {
    const python = backend === "tcp" ? "python3" : withGloo;
    if (python === undefined) return context.skip("no python3 here has PyTorch with Gloo");
    const start = (...args: string[]) => startRole({ python, backend }, args);
    const url = await startGateway("0");
    const sources = [start(url, "actor", "0", "2"), start(url, "actor", "1", "2")];
    const receivers = ["rollout", "rollout", "actor_fwd"].map((role) => start(url, role, "2"));
    await allHoldMore(receivers);

    receivers.pop()?.kill();
    await allHoldMore(receivers);

    sources[1]?.kill();
    sources[1] = start(url, "actor", "1", "2");
    await allHoldMore(receivers);

    gateways[0]?.kill("SIGKILL");
    await gateways[0]?.ended;
    await startGateway(new URL(url).port);
    await allHoldMore(receivers);

    const late = start(url, "rollout", "2");
    await allHoldMore([...receivers, late]);
    for (const { said } of [...receivers, late])
      expect(said.filter((line) => !/^(holds|registered|fell back) |a broadcast over gloo failed/.test(line))).toEqual(
        [],
      );
    // Most of what they hold came in broadcasts, or this would be the test over TCP once more.
    if (backend === "gloo")
      for (const { said } of receivers) {
        const last = said.findLast((line) => line.startsWith("fell back"));
        expect(Number(last?.split(" ")[2])).toBeLessThan(said.filter((line) => line.startsWith("holds")).length);
      }
  },
);
