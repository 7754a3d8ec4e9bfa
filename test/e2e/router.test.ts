/** Engines die every two seconds behind a real `muster router` for eight seconds, so that each of them dies; and streams of a turn whose engine or router is killed. Some 15 s. */
import { makeTempDirectory, spawnMuster } from "@muster/testkit";
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

/** A stream of a turn of session `a`, read as it comes. */
async function streamOf(url: string, content: string) {
  const answer = await ask(url, "/sessions/a/v1/chat/completions", { ...turnOf(content), stream: true });
  expect(answer.status).toBe(200);
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let all = "";
  /** @returns False when there is no more, or the connection broke off. */
  const more = async (): Promise<boolean> => {
    const read = await reader.read().catch(() => null);
    all += decoder.decode(read?.value, { stream: true });
    return read?.done === false;
  };
  const text = (): string =>
    [...all.matchAll(/^data: (\{.*\})$/gm)]
      .map(([, data]) => (JSON.parse(data as string) as { choices: { delta: { content?: string } }[] }).choices[0])
      .map((choice) => choice?.delta.content ?? "")
      .join("");
  return {
    untilText: async () => {
      while (text() === "") if (!(await more())) throw new Error(`no text came: ${all}`);
      return text();
    },
    rest: async () => {
      while (await more());
      return { text: text(), isDone: all.includes("data: [DONE]") };
    },
  };
}

const turnOf = (content: string) => ({ messages: [{ role: "user", content }] });
const ask = (url: string, path: string, body: object): Promise<Response> =>
  fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** What a whole answer to this turn says. */
async function saidTo(url: string, content: string): Promise<string | undefined> {
  const answer = await ask(url, "/sessions/a/v1/chat/completions", turnOf(content));
  const { choices } = (await answer.json()) as { choices: { message: { content: string } }[] };
  return choices[0]?.message.content;
}

test("a stream goes on when its engine is killed in its middle; after the router is killed the same call has the same words", async () => {
  const sessions = await makeTempDirectory();
  const engines = await Promise.all([0, 1].map(() => FakeEngine.start({ version: current, after: 3 })));
  const letOn: (() => void)[] = [];
  for (const engine of engines)
    engine.goOn = new Promise((resolve) => {
      letOn.push(resolve);
    });
  const workers = engines.flatMap(({ url }) => ["--worker", url]);
  const times = ["--health-interval", "300ms", "--health-timeout", "200ms"];
  const start = async (port: string, count: number) => {
    const router = await spawnMuster(["router", "--port", port, ...times, "--sessions", sessions.path, ...workers]);
    const line = await router.waitForLine("the router listens on");
    const url = /http:\/\/[\d.:]+/.exec(line)?.[0] ?? "";
    await untilServing(url, count);
    return { router, url };
  };
  let { router, url } = await start("0", 2);
  try {
    await ask(url, "/sessions", { session_id: "a" });
    const first = await streamOf(url, "one");
    const begun = await first.untilText();
    const dying = engines.find(({ requests }) => requests.length > 0) as FakeEngine;
    const other = engines.find((engine) => engine !== dying) as FakeEngine;
    await dying.kill();
    const { text, isDone } = await first.rest();
    expect([isDone, text.startsWith(begun), text.length]).toEqual([true, true, 4]);
    expect([await saidTo(url, "one"), other.served]).toEqual([text, 1]);

    const second = await streamOf(url, "two");
    const said = await second.untilText();
    await router.kill();
    expect(await second.rest()).toMatchObject({ isDone: false });
    ({ router, url } = await start(new URL(url).port, 1));
    for (const go of letOn) go();
    const again = await (await streamOf(url, "two")).rest();
    expect([again.isDone, again.text.startsWith(said), again.text.length]).toEqual([true, true, 4]);
    // Both turns are on disk: nothing is drawn for them any more.
    const { served } = other;
    expect([await saidTo(url, "one"), await saidTo(url, "two"), other.served]).toEqual([text, again.text, served]);
  } finally {
    await router.kill();
    await Promise.all(engines.map((engine) => engine.kill().catch(() => {})));
    await sessions.remove();
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
