/** Takes some 30 s: a whole job, three more samplers, a router and an agent. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { type ActorProcess, type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

const job = "served";

let runs: Runs;
let run: JobRun;
let samplers: readonly ActorProcess[];
/** The last one that serves. */
let left: ActorProcess;
let router: ActorProcess;
let url: string;

interface Shown {
  readonly url: string;
  readonly state: string;
  readonly weight_version: string;
  readonly resumes: boolean;
}

beforeAll(async () => {
  runs = await openRuns();
  run = await runs.start(job, "--steps", "2000");
  await run.waitForEvent("step.committed");
  samplers = await Promise.all(
    ["guest-0", "guest-1"].map((id) => runs.muster("rollout", "--job", job, "--id", id, "--serve")),
  );
  await startRouter("0");
});

async function startRouter(port: string): Promise<void> {
  const checks = ["--health-interval", "1s", "--health-timeout", "900ms"];
  const sessions = join(runs.path, job, "sessions");
  router = await runs.muster("router", "--port", port, "--job", job, ...checks, "--sessions", sessions);
  url = /http:\/\/[\d.:]+/.exec(await router.waitForLine("the router listens on"))?.[0] ?? "";
}

afterAll(async () => {
  router.signal("SIGINT");
  await runs.muster("stop", "--job", job);
  await run.ended();
  await runs.close();
});

const workers = async (): Promise<readonly Shown[]> =>
  ((await (await fetch(`${url}/workers`)).json()) as { workers: Shown[] }).workers;

const ask = (path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${url}${path}`, {
    ...{ method: "POST", body: JSON.stringify(body) },
    headers: { "content-type": "application/json", ...headers },
  });

test("samplers of a running job answer behind a router, also when one of them is killed", async () => {
  const isServing = async () => {
    const found = await workers();
    return found.length === 2 && found.every(({ state, resumes }) => state === "healthy" && resumes);
  };
  const log = () => samplers.map(({ lines }) => lines.slice(-5));
  await waitFor(isServing, { what: "two samplers that serve", timeoutMs: 40_000, detail: log });

  const prompt = "3rd of march 1987=";
  const completion = await ask("/v1/completions", { prompt, temperature: 0, max_tokens: 12 });
  expect(completion.status).toBe(200);
  expect(completion.headers.get("x-muster-weight-version-source")).toBe("answer");
  const { choices } = (await completion.json()) as { choices: { text: string; finish_reason: string }[] };
  // The job's tokenizer has one character for a token; whoever has trained for a few steps answers with digits.
  expect(choices[0]?.text).toMatch(/^[\d-]{4,12}$/);

  const before = Number(completion.headers.get("x-muster-weight-version"));
  const fenced = await ask("/generate", { text: prompt }, { "x-muster-min-weight-version": `${before}` });
  expect(fenced.status).toBe(200);
  const { meta_info: meta } = (await fenced.json()) as { meta_info: { weight_version: string } };
  expect(Number(meta.weight_version)).toBeGreaterThanOrEqual(before);

  const answers: number[] = [];
  const asking = Array.from({ length: 4 }, async () => {
    for (let i = 0; i < 20; i++)
      answers.push(
        (await ask("/v1/chat/completions", { messages: [{ role: "user", content: prompt }], max_tokens: 12 })).status,
      );
  });
  await waitFor(() => answers.length > 8, { what: "answers before the death" });
  await samplers[0]?.kill();
  await Promise.all(asking);
  expect(answers).toEqual(Array.from({ length: 80 }, () => 200));
  const isLeft = async () => (await workers()).filter(({ state }) => state === "healthy").length === 1;
  await waitFor(isLeft, { what: "the dead one in quarantine", detail: () => answers });
});

const agentFile = fileURLToPath(new URL("../../examples/agent/agent.py", import.meta.url));

/** An agent that takes a turn whenever it is told to. */
function startAgent(session: string) {
  const agent: ChildProcessWithoutNullStreams = spawn("python3", [agentFile, url, session, "step"]);
  const lines: string[] = [];
  createInterface(agent.stdout).on("line", (line) => lines.push(line));
  const said: string[] = [];
  agent.stderr.setEncoding("utf8").on("data", (text: string) => said.push(text));
  const until = (count: number) =>
    waitFor(() => lines.length >= count, {
      what: `turn ${count}`,
      timeoutMs: 30_000,
      detail: () => [...lines, ...said],
    });
  return { lines, until, next: () => void agent.stdin.write("\n") };
}

test("an agent does not notice that its engine, the router and the controller die in its ten turns", async () => {
  const healthy = async () => (await workers()).filter(({ state }) => state === "healthy").length;
  const agent = startAgent("episode");
  const deaths: Readonly<Record<number, () => Promise<unknown>>> = {
    async 2() {
      left = await runs.muster("rollout", "--job", job, "--id", "guest-2", "--serve");
      const log = () => left.lines.slice(-5);
      await waitFor(async () => (await healthy()) === 2, { what: "another engine", timeoutMs: 40_000, detail: log });
      agent.next();
      await samplers[1]?.kill();
    },
    async 5() {
      agent.next();
      await router.kill();
      await startRouter(new URL(url).port);
    },
    async 8() {
      const controller = run.pidOf("controller");
      agent.next();
      process.kill(controller, "SIGKILL");
    },
  };
  for (let turn = 0; turn < 10; turn++) {
    await (deaths[turn]?.() ?? agent.next());
    await agent.until(turn + 1);
  }
  await agent.until(11);

  const again = startAgent("episode");
  for (let turn = 0; turn < 10; turn++) again.next();
  await again.until(11);
  expect(again.lines).toEqual(agent.lines);
  const { trace, ...session } = (await (await fetch(`${url}/sessions/episode/trace`)).json()) as {
    readonly trace: readonly { readonly added: readonly { readonly role: string }[] }[];
  };
  expect(session).toMatchObject({ turns: 10, ended: "asked", reward: expect.any(Number) });
  expect(trace.slice(1).map(({ added }) => added.map(({ role }) => role))).toEqual(
    Array.from({ length: 9 }, () => ["tool", "user"]),
  );
});

test("a sampler that leaves takes its address with it", async () => {
  const before = (await workers()).length;
  left.signal("SIGINT");
  await left.exited;
  await waitFor(async () => (await workers()).length === before - 1, { what: "its worker gone", timeoutMs: 5_000 });
});
