/** Rewards that a program or a service computes. */
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { failureKindOf } from "../src/collect/failure-kind.ts";
import { errors } from "../src/errors.ts";
import type { Reward, RewardInput } from "../src/index.ts";
import { openReward } from "../src/rewards/open-reward.ts";

const signal = new AbortController().signal;
const asked = (responseText: string, row?: Record<string, unknown>): RewardInput => ({
  prompt: { ids: Int32Array.of(1), text: "1+1=", answer: "2", ...(row ? { row } : {}) },
  responseIds: Int32Array.of(2),
  responseText,
  finish: "stop",
});
const failure = async (work: Promise<unknown>): Promise<{ readonly message: string; readonly kind: string }> =>
  await work.then(
    (value) => ({ message: `no failure, but ${value}`, kind: "none" }),
    (error: Error) => ({ message: error.message, kind: failureKindOf(error) }),
  );

/** True for a process that has ended; one that only waits to be reaped has. */
function isGone(pid: number): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

const opened: Reward[] = [];
const servers: Server[] = [];
const folders: TempDirectory[] = [];
afterEach(async () => {
  for (const reward of opened.splice(0)) await reward.close?.();
  for (const folder of folders.splice(0)) await folder.remove();
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

describe("a reward that a program computes", () => {
  /** A program in JavaScript whose `take` sees each line; `say` writes an answer. */
  async function program(body: string): Promise<Reward> {
    const folder = await makeTempDirectory();
    folders.push(folder);
    const path = join(folder.path, "reward.run");
    const lines = `require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => take(JSON.parse(line)));`;
    const say = 'const say = (answer) => process.stdout.write(JSON.stringify(answer) + "\\n");';
    writeFileSync(path, `#!${process.execPath}\n${say}\n${body}\n${lines}\n`);
    chmodSync(path, 0o755);
    const reward = await openReward(path, process.env);
    opened.push(reward);
    return reward;
  }

  it("is asked with prompt, answer, row and response, and answers in any order", async () => {
    const reward = await program(`
      const held = [];
      function take({ id, prompt, responseText, finish }) {
        held.push({ id, reward: responseText.length + prompt.row.bonus + (finish === "stop" && prompt.answer === "2" ? 100 : 0) });
        if (held.length === 3) for (const answer of held.reverse()) say(answer);
      }`);
    const scores = ["a", "bb", "ccc"].map((text) => reward.score(asked(text, { bonus: 10 }), signal));
    expect(await Promise.all(scores)).toEqual([111, 112, 113]);
  });

  it("fails one response by an answer with an error, and no other", async () => {
    const reward = await program(`const take = ({ id, responseText }) =>
      say(responseText === "bad" ? { id, error: "no such row" } : { id, reward: 1 });`);
    expect(await reward.score(asked("good"), signal)).toBe(1);
    expect(await failure(reward.score(asked("bad"), signal))).toEqual({
      message: `reward "${reward.name}" failed: no such row`,
      kind: "user_error",
    });
    expect(await reward.score(asked("good"), signal)).toBe(1);
  });

  it("that ends fails what it has not answered, with its last words, and is started again", async () => {
    const reward = await program(`const take = ({ id, responseText }) => {
      if (responseText !== "end") return say({ id, reward: process.pid });
      console.error("out of luck");
      process.exit(3);
    }`);
    const first = await reward.score(asked("pid"), signal);
    const ends = await failure(reward.score(asked("end"), signal));
    expect(ends.message).toMatch(/ended with exit code 3; it said: out of luck$/);
    expect(await reward.score(asked("pid"), signal)).not.toBe(first);
  });

  it("that ends before any answer is not started for each response again", async () => {
    const reward = await program(`console.error("no torch here"); process.exit(1); const take = () => {};`);
    const [one, two] = [
      await failure(reward.score(asked("a"), signal)),
      await failure(reward.score(asked("b"), signal)),
    ];
    expect(one.message).toMatch(/no torch here$/);
    expect(two).toEqual(one);
  });

  it("that can not be started says why, the second time, too", async () => {
    const reward = await openReward(join("/", "nowhere", "at-all.py"), process.env);
    opened.push(reward);
    for (let time = 0; time < 2; time++) {
      expect((await failure(reward.score(asked("a"), signal))).message).toMatch(/ended with spawn .* ENOENT$/);
      // The system tells its end once more, some turns of the event loop later.
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    }
  });

  it.each([
    ["prints what is no answer", `console.log("loading…");`, /no JSON: loading…$/],
    ["forgets the id", "say({ reward: 1 });", /without the id of its question: \{"reward":1\}$/],
    ["never ends a line", `process.stdout.write("x".repeat(200_000));`, /more than 65536 characters/],
  ])("that %s is ended, and says so", async (_, does, message) => {
    const reward = await program(`const take = () => { ${does} };`);
    expect((await failure(reward.score(asked("a"), signal))).message).toMatch(message);
  });

  it("that hangs for a whole deadline is ended, so that the next response meets a new one", async () => {
    const reward = await program(`const take = ({ id, responseText }) => {
      if (responseText === "hang") for (;;);
      say({ id, reward: 1 });
    }`);
    expect(await reward.score(asked("a"), signal)).toBe(1);
    const ending = new AbortController();
    const hangs = failure(reward.score(asked("hang"), ending.signal));
    const late = errors.TrajectoryTimeout({ what: "reward of sample 0 of group 1.0", timeoutMs: 5 });
    ending.abort(late);
    expect((await hangs).message).toBe(late.message);
    expect(await reward.score(asked("a"), signal)).toBe(1);
  });

  it("is ended by the end of its input, and by force when it does not listen to that", async () => {
    const reward = await program(
      "process.stdin.on('end', () => setInterval(() => {}, 1e6)); const take = ({ id }) => say({ id, reward: process.pid });",
    );
    const pid = await reward.score(asked("a"), signal);
    await reward.close?.();
    expect(() => process.kill(pid as number, 0)).toThrow(/ESRCH/);
  });

  it("ends with all that it started, also what has a session of its own and holds its output", async () => {
    const reward = await program(`
      const { spawn } = require("node:child_process");
      const child = spawn("sleep", ["600"], { detached: true, stdio: ["ignore", "inherit", "inherit"] });
      child.unref();
      const take = ({ id }) => say({ id, reward: child.pid });`);
    const pid = (await reward.score(asked("a"), signal)) as number;
    expect(process.kill(pid, 0)).toBe(true);
    await reward.close?.();
    await waitFor(() => isGone(pid), { what: "the end of what the program started" });
  });
});

describe("a reward that a service computes", () => {
  async function service(answer: RequestListener): Promise<Reward> {
    const server = createServer(answer);
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return await openReward(`http://127.0.0.1:${(server.address() as AddressInfo).port}/reward`, process.env);
  }

  it("is asked by POST, with what a program is asked", async () => {
    const reward = await service(async (request, response) => {
      const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
      response.end(
        JSON.stringify({
          reward: request.method === "POST" && body.prompt.answer === "2" ? body.responseText.length : 0,
        }),
      );
    });
    expect(await reward.score(asked("four"), signal)).toBe(4);
  });

  it.each([
    ["503", 503, "busy", "transport", /can not be asked now: it answered 503: busy$/],
    ["429", 429, "slow down", "transport", /it answered 429/],
    ["404", 404, "no such page", "user_error", /failed: it answered 404: no such page$/],
    ["no JSON", 200, "not json", "user_error", /answered not json; it must answer with JSON/],
    ["another field", 200, `{"score":1}`, "user_error", /answered \{"score":1\}; it must/],
    ["an error", 200, `{"error":"no such row"}`, "user_error", /failed: no such row$/],
    ["too much", 200, "x".repeat(70_000), "user_error", /answered more than 65536 bytes/],
  ])("that answers %s fails the response, as its rule says", async (_, status, body, kind, message) => {
    const reward = await service((_, response) => response.writeHead(status).end(body));
    const found = await failure(reward.score(asked("a"), signal));
    expect(found.kind).toBe(kind);
    expect(found.message).toMatch(message);
  });

  it("that nobody runs is a failure of transport, by name", async () => {
    const reward = await openReward("http://127.0.0.1:1/reward", process.env);
    const found = await failure(reward.score(asked("a"), signal));
    expect(found).toMatchObject({ kind: "transport" });
    expect(found.message).toMatch(/^reward "http:\/\/127.0.0.1:1\/reward" can not be asked now: /);
  });

  it("ends with the deadline of its response", async () => {
    const reward = await service(() => {});
    const ending = new AbortController();
    const waits = failure(reward.score(asked("a"), ending.signal));
    ending.abort(new Error("too late"));
    expect((await waits).message).toBe("too late");
  });
});
