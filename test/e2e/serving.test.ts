/** Takes some 20 s: a whole job, two more samplers and a router. */
import { type ActorProcess, type JobRun, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

const job = "served";

let runs: Runs;
let run: JobRun;
let samplers: readonly ActorProcess[];
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
  router = await runs.muster(
    "router",
    "--port",
    "0",
    "--job",
    job,
    "--health-interval",
    "1s",
    "--health-timeout",
    "900ms",
  );
  url = /http:\/\/[\d.:]+/.exec(await router.waitForLine("the router listens on"))?.[0] ?? "";
});

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
  const left = async () => (await workers()).filter(({ state }) => state === "healthy").length === 1;
  await waitFor(left, { what: "the dead one in quarantine", detail: () => answers });
});

test("a sampler that leaves takes its address with it", async () => {
  samplers[1]?.signal("SIGINT");
  await samplers[1]?.exited;
  await waitFor(async () => (await workers()).length === 1, { what: "its worker gone", timeoutMs: 5_000 });
});
