/** The coordinator as a process, and clients that share no code with it: Python's standard library and nothing else. */
import { type ExecFileException, execFile } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import { addressOf, buildOnce, muster, type RunningMuster, startMuster } from "./support/muster.ts";

const started: RunningMuster[] = [];
const folders: string[] = [];

beforeAll(buildOnce, 120_000);
afterEach(async () => {
  for (const each of started.splice(0)) {
    each.kill("SIGKILL");
    await each.ended;
  }
  for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true });
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "muster-gateway-"));
  folders.push(path);
  return path;
}

async function startGateway(
  args: readonly string[],
): Promise<{ readonly url: string; readonly process: RunningMuster }> {
  const process = startMuster(["gateway", "--json", ...args]);
  started.push(process);
  return { url: await addressOf(process), process };
}

/** Runs a Python program that has `call(line, body=None)`. @returns Its standard output as JSON. */
function python(url: string, program: string): Promise<unknown> {
  const head = `
import json, sys, time, urllib.error, urllib.request
def call(line, body=None):
    method, path = line.split(" ", 1)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(${JSON.stringify(url)} + path, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
`;
  return new Promise((resolve, reject) => {
    execFile("python3", ["-c", head + program], (error: ExecFileException | null, stdout, stderr) => {
      if (error) reject(new Error(stderr));
      else resolve(JSON.parse(stdout));
    });
  });
}

test("a client of urllib registers, finds its peer, its groups and its weights' metadata", {
  timeout: 60_000,
}, async () => {
  const { url } = await startGateway(["--port", "0"]);
  const seen = await python(
    url,
    `
source = {"pp_size": 1, "pp_rank": 0, "is_pp_src_rank": True, "master_address": "10.0.0.1", "master_port": 29500}
call("POST /dcs_coordinator/register", {"role_name": "actor", "rank": 0, "world_size": 1, "ip": "10.0.0.1", "port": 20000, "device_id": 0, "metadata": source})
ranks = [call("POST /dcs_coordinator/register", {"role_name": role})[1]["rank"] for role in ("rollout", "actor_fwd", "actor_fwd", "reference")]
call("POST /dcs_coordinator/send_weight_meta", {"names": ["a"], "dtypes": ["torch.bfloat16"], "shapes": [[4, 2]], "group_name": "update_actor_pp_0"})
print(json.dumps([
    ranks,
    call("GET /dcs_coordinator/peer?role=actor&rank=0")[1]["role_name"],
    call("GET /dcs_coordinator/get_model_update_group_ranks?role=reference&rank=0&need_update_ref=true")[1],
    call("GET /dcs_coordinator/recv_weight_meta?index=0")[1],
    call("GET /dcs_coordinator/topology?role_filter=actor")[1]["world_size"],
    call("GET /dcs_coordinator/heartbeat?role=nobody&rank=0")[0],
]))`,
  );
  expect(seen).toEqual([
    [0, 0, 1, 0],
    "rollout",
    {
      ...{ global_rank: 3, world_size: 4, train_pp_size: 1, membership_epoch: 5 },
      pp_groups: { update_actor_pp_0: "tcp://10.0.0.1:29500" },
    },
    [{ names: ["a"], dtypes: ["torch.bfloat16"], shapes: [[4, 2]], group_name: "update_actor_pp_0" }],
    5,
    404,
  ]);
});

test("after kill -9 it finds its clients again: heartbeats go on with the same ranks", {
  timeout: 60_000,
}, async () => {
  const state = folder();
  const first = await startGateway(["--port", "0", "--state", state]);
  const register =
    'print(json.dumps([call("POST /register", {"role_name": "actor", "port": n})[1]["rank"] for n in range(3)]))';
  expect(await python(first.url, register)).toEqual([0, 1, 2]);
  first.process.kill("SIGKILL");
  await first.process.ended;
  const port = new URL(first.url).port;
  const second = await startGateway(["--port", port, "--state", state]);
  const beats =
    'print(json.dumps([[call(f"GET /heartbeat?role=actor&rank={n}")[0] for n in range(4)], call("GET /health")[1]["world_size"]]))';
  expect(await python(second.url, beats)).toEqual([[200, 200, 200, 404], 3]);
});

// Each command is a process of its own, which takes a second or more on a busy machine.
const processes = { timeout: 60_000 };

test("others may not read its tokens, and a file that others can read is refused", processes, () => {
  const tokens = join(folder(), "tokens.txt");
  writeFileSync(tokens, `admin ${"t".repeat(32)}\n`);
  chmodSync(tokens, 0o644);
  const { code, stderr } = muster(["gateway", "--port", "0", "--tokens", tokens]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("chmod 600")]);
  expect(stderr).not.toContain("tttt");
});

test("what can not be used is named with its option", processes, () => {
  expect(muster(["gateway", "--role-mapping", "actor"]).stderr).toContain("--role-mapping: actor is not ROLE=PEER");
  expect(muster(["gateway", "--host", "0.0.0.0"]).stderr).toContain("there are no tokens");
  expect(muster(["gateway", "--tls-cert", "a.pem"]).stderr).toContain("goes with --tls-key");
});
