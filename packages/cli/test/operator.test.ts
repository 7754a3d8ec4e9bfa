import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { generateKeys } from "@muster/transport/internal";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeConnection } from "../src/composition/connection.ts";
import { endOf, type FakeJob, startFakeJob, statusOf } from "./support/fake-job.ts";
import { buildOnce, startMuster } from "./support/muster.ts";

const timeoutMs = 30_000;
const left = { id: "rollout-0", role: "rollout", incarnation: "i1", reason: "drained" } as const;

describe("an operator's command on a running job", { timeout: timeoutMs }, () => {
  let job: FakeJob;

  beforeAll(async () => {
    buildOnce();
    job = await startFakeJob("small");
  }, 120_000);
  afterAll(() => job.close());

  it("status says that there is no status before the controller has drawn one", async () => {
    expect((await run("status")).stdout).toContain("has no status yet");
    expect(JSON.parse((await run("status", "--json")).stdout)).toBe(null);
  });

  it("status shows step, weights, mesh, ledger and members", async () => {
    await job.draw(statusOf("small"));
    const { code, stdout } = await run("status");
    expect(code).toBe(0);
    expect(stdout).toContain("3/10 committed");
    expect(stdout).toContain("64 admitted = 48 trained + 0 aborted + 0 quarantined + 16 pending");
    expect(stdout).toMatch(/^rollout-0\s+rollout\s+healthy\s+–\s+3\s+generating\s+weights\.pull/m);
    expect(stdout).not.toContain("old");
  });

  it("status --json writes the status and its age on one line", async () => {
    await job.draw(statusOf("small"));
    const { stdout } = await run("status", "--json");
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({
      job: "small",
      step: 3,
      members: [{ id: "policy-0" }, { id: "rollout-0" }],
    });
    expect(JSON.parse(stdout).ageMs).toBeLessThan(timeoutMs);
  });

  it("status says how old a status is that nobody draws any more", async () => {
    await job.draw(statusOf("small", { atMs: Date.now() - 65_000 }));
    const { code, stdout } = await run("status");
    expect(code).toBe(0);
    expect(stdout).toMatch(/this is 1 min 0\d s old: the controller may be gone/);
  });

  it("status --watch ends with the job", async () => {
    await job.draw(statusOf("small", { step: 4 }));
    const watching = startMuster(["status", "--watch", ...job.where]);
    await waitFor(() => watching.stdout().includes("4/10"), { what: "the first status", timeoutMs });
    await job.draw(statusOf("small", { step: 10, phase: "stopped" }));
    expect((await watching.ended).code).toBe(0);
    expect(watching.stdout()).toContain("10/10");
  });

  it("drain asks for one replica and waits until it has left; nobody of that name is a mistake", async () => {
    await job.draw(statusOf("small"));
    const asked: unknown[] = [];
    await job.hear((message) => {
      asked.push([message.kind, message.role, message.body]);
      if (message.kind === "replica.drain" && message.body.id === left.id) void job.say("member.left", left);
    });
    const { fleet } = statusOf("small");
    const alone = { ...fleet, replicas: fleet.replicas.slice(0, 1) };
    const first = await run("drain", "rollout-0", "--json");
    expect(JSON.parse(first.stdout)).toEqual({ id: "rollout-0", how: "left", reason: "drained" });
    expect(first.code).toBe(0);
    const body = { id: "rollout-0", commandId: expect.stringMatching(/^c-/) };
    expect(asked).toEqual([["replica.drain", "operator", body]]);

    await job.draw(statusOf("small", { members: statusOf("small").members.slice(0, 1), fleet: alone }));
    const second = await run("drain", "rollout-0");
    expect(second).toMatchObject({ code: 2, stderr: "muster: rollout-0 is no member: members are policy-0\n" });
    expect(asked).toHaveLength(1);
  });

  it("drain gives up waiting, with the code for trying again, when nobody answers", async () => {
    await job.draw(statusOf("small"));
    const { code, stderr } = await run("drain", "policy-0", "--timeout", "300ms");
    expect(code).toBe(75);
    expect(stderr).toContain("policy-0 did not leave within 300ms");
    expect(stderr).toContain("--timeout");
  });

  it("watch --from-start tells each fact once and ends when the job does; Ctrl-C ends it earlier", async () => {
    const watching = startMuster(["watch", "--from-start", ...job.where]);
    await waitFor(() => watching.stdout().includes("rollout-0 left: drained"), { what: "the first event", timeoutMs });
    watching.kill("SIGINT");
    expect((await watching.ended).code).toBe(130);

    const toTheEnd = startMuster(["watch", "--from-start", "--json", ...job.where]);
    await waitFor(() => toTheEnd.stdout().includes("member.left"), { what: "the first event", timeoutMs });
    await job.say("alarm.raised", { alarm: "progress", detail: "\u001b[31mno progress\u0007" });
    await job.say("job.ended", endOf());
    const { code, stdout } = await toTheEnd.ended;
    const events = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(code).toBe(0);
    expect(events.map(({ kind }) => kind)).toEqual(["member.left", "alarm.raised", "job.ended"]);
    expect(events[2]).toMatchObject({ seq: 3, from: "controller", body: { outcome: "stopped", step: 3 } });

    const forPeople = await run("watch", "--from-start");
    expect(forPeople.stdout).toMatch(/^\d\d:\d\d:\d\d {2}! progress: no progress$/m);
  });

  it("stop answers with the end of the job, also when that was long ago", async () => {
    const { code, stdout } = await run("stop", "--reason", "enough");
    expect(code).toBe(0);
    expect(stdout).toBe("job small ended: stopped at step 3, version 3 (enough)\n");
    expect(JSON.parse((await run("stop", "--json")).stdout)).toMatchObject({ job: "small", outcome: "stopped" });
  });

  function run(...args: readonly string[]) {
    return startMuster([...args, ...job.where]).ended;
  }
});

describe("a command for the fleet", { timeout: timeoutMs }, () => {
  let job: FakeJob;
  const asked: { readonly kind: string; readonly body: object }[] = [];

  /** A controller that takes what scales to four, refuses what scales to five, and leaves the rest open. */
  beforeAll(async () => {
    buildOnce();
    job = await startFakeJob("fleet");
    await job.hear((message) => {
      const { kind, body, id } = message;
      asked.push({ kind, body });
      if (!("commandId" in body) || body.commandId === undefined) return;
      const said = { commandId: body.commandId, kind, by: "muster i1" };
      const count = kind === "fleet.scale" ? body.rollout : 0;
      if (count === 5) void job.say("command.refused", { ...said, asked: "{}", reason: "no room \u001b[31mfor five" });
      else if (count === 6)
        void job.say("message.refused", {
          ...{
            id,
            said: kind,
            sender: "operator muster",
            subject: "s",
            code: "malformed",
            detail: "no six",
            unsaid: 0,
          },
        });
      else void job.say("command.accepted", { ...said, asked: "{}", detail: "rollout 2 → 4" });
      if (count === 4) void job.say("command.done", { ...said, outcome: "done", detail: "rollout = 4" });
    });
  });
  afterAll(() => job.close());

  it("waits until it is done, and says so in words or in JSON", async () => {
    const words = await run("scale", "rollout=4", "--command-id", "mine");
    expect(words).toEqual({ code: 0, stdout: "done: rollout = 4 (mine)\n", stderr: "" });
    expect(asked.at(-1)).toEqual({ kind: "fleet.scale", body: { rollout: 4, commandId: "mine" } });
    const { stdout } = await run("send", "fleet.scale", "--json", '{"rollout":4,"commandId":"sent"}');
    expect(stdout).toBe("done: rollout = 4 (sent)\n");
    const json = await run("scale", "rollout=4", "--json", "--command-id", "mine");
    expect(JSON.parse(json.stdout)).toEqual({
      ...{ command_id: "mine", kind: "fleet.scale", outcome: "done", detail: "rollout = 4" },
    });
  });

  it("that is refused ends with code 2 and the reason", async () => {
    const { code, stdout, stderr } = await run("scale", "rollout=5");
    expect({ code, stdout, stderr }).toEqual({
      ...{ code: 2, stdout: "", stderr: "muster: fleet.scale refused: no room for five\n" },
    });
  });

  it("that the controller does not understand ends at once, with what it says of the message", async () => {
    const { code, stderr } = await run("scale", "rollout=6");
    expect(stderr).toMatch(/^muster: the controller did not take fleet.scale: no six; does this program .*\n$/);
    expect(code).toBe(2);
  });

  it("with --no-wait ends when it is taken; without an end in time it says how to take it back", async () => {
    expect(await run("cordon", "node-0", "--no-wait", "--command-id", "c1")).toMatchObject({
      ...{ code: 0, stdout: "accepted: rollout 2 → 4 (c1)\n" },
    });
    const late = await run("cordon", "node-0", "--timeout", "300ms", "--command-id", "c2");
    expect(late.code).toBe(75);
    expect(late.stderr).toMatch(/take it back with: node .*muster\.mjs cancel c2 --job fleet/);
  });

  it.each([
    [["scale", "roolout=4"], "roles are policy, rollout, checkpoint"],
    [["scale", "rollout=-1"], "N is 0 to 4096"],
    [["kill", "rollout-0", "--signal", "SIGFOO"], "is not one of SIGKILL"],
    [["cordon", "No Such"], "No Such"],
    [["send", "job.destroy", "--json", "{}"], "use one of job.stop"],
    [["send", "fleet.cordon", "--json", '{"node":1}'], "id"],
    [["send", "fleet.cordon", "--json", "{"], "is not JSON"],
  ])("%j is refused before anything is sent", async (args, complaint) => {
    const before = asked.length;
    const { code, stderr } = await run(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(complaint);
    expect(asked).toHaveLength(before);
  });

  function run(...args: readonly string[]) {
    return startMuster([...args, ...job.where]).ended;
  }
});

describe("a command that asks for a job nobody answers for", { timeout: timeoutMs }, () => {
  let directory: TempDirectory;

  beforeAll(async () => {
    buildOnce();
    directory = await makeTempDirectory();
    const url = `nats://127.0.0.1:${await closedPort()}`;
    const { credentials } = generateKeys();
    for (const job of ["over", "lost"]) writeConnection(join(directory.path, job), { job, url, credentials });
    const end = { kind: "job.ended", body: endOf({ outcome: "done", reason: "all steps" }) };
    writeFileSync(join(directory.path, "over/events.jsonl"), `${JSON.stringify(end)}\n`);
  });
  afterAll(() => directory.remove());

  it.each(["status", "watch", "stop"])("%s says how it ended when it is over", async (command) => {
    const { code, stdout } = await run("over", command);
    expect(stdout).toContain("job over is over: done (all steps); see ");
    expect(code).toBe(0);
  });

  it("asks to try again when it is not over", async () => {
    const { code, stdout, stderr } = await run("lost", "status");
    expect(stderr).toMatch(/^muster: no NATS server answered at nats:/);
    expect(stdout).toBe("");
    expect(code).toBe(75);
  });

  it("says how it ended when that happens while it asks", async () => {
    const job = await startFakeJob("ending");
    try {
      const body = endOf({ outcome: "done", reason: "all steps" });
      await job.hear(({ kind }) => {
        if (kind !== "job.stop") return;
        writeFileSync(join(job.runs, "ending/events.jsonl"), `${JSON.stringify({ kind: "job.ended", body })}\n`);
        void job.stopBroker();
      });
      const { code, stdout } = await startMuster(["stop", "--timeout", "1s", ...job.where]).ended;
      expect(stdout).toContain("job ending is over: done (all steps); see ");
      expect(code).toBe(0);
    } finally {
      await job.close();
    }
  });

  function run(job: string, command: string) {
    return startMuster([command, "--runs", directory.path, "--job", job]).ended;
  }
});

async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
