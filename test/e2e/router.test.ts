/** Engines die every two seconds behind a real `muster router` for eight seconds, so that each of them dies; hence 12 s. */
import { spawnMuster } from "@muster/testkit";
import { expect, test } from "vitest";
import { FakeEngine, responseOf } from "../../packages/router/test/support/fake-engine.ts";

const loadMs = 8_000;
const dieEveryMs = 2_000;
const clients = 16;
const prompt = [3, 1, 4];
const tokens = 24;
const current = "5";

interface Generated {
  readonly output_ids: readonly number[];
  readonly meta_info: { readonly weight_version: string };
}

test("engines die every two seconds under load, and no request is lost or answered with old weights", async () => {
  const started = { version: current, resumes: true, latencyMs: 5 };
  const engines = await Promise.all(Array.from({ length: 4 }, () => FakeEngine.start(started)));
  const workers = engines.flatMap(({ url }) => ["--worker", url]);
  const times = ["--health-interval", "300ms", "--health-timeout", "200ms"];
  const router = await spawnMuster(["router", "--port", "0", ...times, ...workers]);
  try {
    const line = await router.waitForLine("the router listens on");
    const url = /http:\/\/[\d.:]+/.exec(line)?.[0] ?? "";
    await untilServing(url, engines.length);
    const endMs = Date.now() + loadMs;
    const killing = killInTurn(engines, started, endMs);
    const answers = await Promise.all(Array.from({ length: clients }, (_, i) => load(url, i % 2 === 0, endMs)));
    const deaths = await killing;
    const all = answers.flat();
    const whole = responseOf(prompt, tokens);
    expect(deaths).toBeGreaterThanOrEqual(3);
    expect(all.length).toBeGreaterThan(200);
    expect(all.filter((answer) => "lost" in answer)).toEqual([]);
    for (const answer of all) expect(answer).toEqual({ ids: whole, version: current });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/muster_router_retries_total\{kind="retry"\} [1-9]/);
    router.signal("SIGINT");
    expect(await router.exited).toEqual({ code: 0, signal: null });
  } finally {
    await router.kill();
    await Promise.all(engines.map((engine) => engine.kill()));
  }
});

type Answer = { readonly ids: readonly number[]; readonly version: string } | { readonly lost: string };

/** Asks one request after another; every second client as a stream. */
async function load(url: string, isStream: boolean, endMs: number): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  const body = JSON.stringify({ input_ids: prompt, stream: isStream, sampling_params: { max_new_tokens: tokens } });
  while (Date.now() < endMs) {
    try {
      const headers = { "content-type": "application/json", "x-muster-min-weight-version": current };
      const response = await fetch(`${url}/generate`, { method: "POST", headers, body });
      const text = await response.text();
      if (response.status !== 200) answers.push({ lost: `${response.status} ${text}` });
      else {
        const events = text.split("\n").filter((line) => line.startsWith("data: {"));
        const { output_ids: ids, meta_info: meta } = JSON.parse(
          isStream ? (events.at(-1)?.slice(6) ?? "") : text,
        ) as Generated;
        answers.push({ ids, version: meta.weight_version });
      }
    } catch (error) {
      answers.push({ lost: String(error) });
    }
  }
  return answers;
}

/** Kills one engine after another. It comes back at its address with weights of the start, and gets the current ones a moment later. */
async function killInTurn(engines: FakeEngine[], options: { version: string; resumes: boolean }, endMs: number) {
  let deaths = 0;
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  for (; ; deaths++) {
    await pause(dieEveryMs - 600);
    const at = deaths % engines.length;
    const dying = engines[at];
    if (!dying || Date.now() > endMs - 600) return deaths;
    const { port } = dying;
    await dying.kill();
    await pause(300);
    const again = await FakeEngine.start({ ...options, port, version: "0" });
    engines[at] = again;
    await pause(300);
    again.version = current;
  }
}

async function untilServing(url: string, count: number): Promise<void> {
  for (;;) {
    const { workers } = (await (await fetch(`${url}/workers`)).json()) as { workers: { is_healthy: boolean }[] };
    if (workers.filter((worker) => worker.is_healthy).length === count) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
