import { expect, test } from "vitest";
import { type FakeOptions, responseOf, textOfIds } from "./support/fake-engine.ts";
import { eventsOf, openRouter, startEngine } from "./support/open-router.ts";

const input = [11, 12, 13];
const stream = {
  input_ids: input,
  stream: true,
  return_logprob: true,
  sampling_params: { max_new_tokens: 10, temperature: 1 },
};

interface Event {
  readonly text: string;
  readonly output_ids: number[];
  readonly meta_info: {
    readonly completion_tokens: number;
    readonly prompt_tokens: number;
    readonly finish_reason: object | null;
    readonly output_token_logprobs: [number, number, null][];
    readonly weight_versions?: { version: string; start: number; end: number }[];
  };
}

async function pair(options: FakeOptions, after: { readonly resumes: boolean }) {
  const bad = await startEngine({ ...options, version: "3", after: 4 });
  bad.mode = "dies in the stream";
  const opened = await openRouter([bad], { pool: { health: { intervalMs: 60_000 } } });
  const good = await startEngine({ ...options, version: "4", resumes: after.resumes });
  opened.router.add(good.url);
  await opened.until("both", (workers) => workers.every(({ state }) => state === "healthy"));
  return { ...opened, bad, good };
}

test.each([{ incremental: false }, { incremental: true }])(
  "a stream whose engine dies goes on at another one, as if nothing had been ($incremental)",
  async ({ incremental }) => {
    const { ask, good, metrics } = await pair({ resumes: true, incremental }, { resumes: true });
    const { data, isDone, isBroken } = await eventsOf(await ask("/generate", stream));
    expect({ isDone, isBroken }).toEqual({ isDone: true, isBroken: false });
    const events = data as Event[];
    const whole = responseOf(input, 10);
    const ids = incremental ? events.flatMap((event) => event.output_ids) : events.at(-1)?.output_ids;
    const text = incremental ? events.map((event) => event.text).join("") : events.at(-1)?.text;
    expect(ids).toEqual(whole);
    expect(text).toBe(textOfIds(whole));
    expect(events.map(({ meta_info }) => meta_info.completion_tokens)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    const last = events.at(-1)?.meta_info;
    expect(last?.prompt_tokens).toBe(3);
    expect(last?.weight_versions).toEqual([
      { version: "3", start: 0, end: 4 },
      { version: "4", start: 4, end: 10 },
    ]);
    const logprobs = incremental
      ? events.flatMap(({ meta_info }) => meta_info.output_token_logprobs)
      : last?.output_token_logprobs;
    expect(logprobs?.map(([, id]) => id)).toEqual(whole);
    expect(good.requests[0]?.body).toMatchObject({
      input_ids: [...input, ...whole.slice(0, 4)],
      sampling_params: { max_new_tokens: 6 },
    });
    expect(await metrics()).toContain('muster_router_retries_total{kind="continue"} 1');
  },
);

test("a fence holds for the rest, too: weights that the request does not accept do not go on with it", async () => {
  const { ask, router, good } = await pair({ resumes: true }, { resumes: true });
  router.remove(good.url);
  const third = await startEngine({ version: "3", resumes: true });
  router.add(third.url);
  router.add(good.url);
  const { data, isDone } = await eventsOf(await ask("/generate", stream, { "x-muster-weight-version": "3" }));
  expect(isDone).toBe(true);
  expect((data.at(-1) as Event).meta_info.weight_versions).toEqual([{ version: "3", start: 0, end: 10 }]);
  expect(good.served).toBe(0);
});

test.each([
  ["its attempts are used up", { sampling_params: { max_new_tokens: 40 } }, false],
  ["a penalty looks back", { sampling_params: { max_new_tokens: 10, frequency_penalty: 0.5 } }, true],
  ["a grammar is in the middle of its text", { sampling_params: { max_new_tokens: 10, regex: "a*" } }, true],
  ["log-probs of the prompt were asked for", { logprob_start_len: 0 }, true],
  ["the prompt is a text", { input_ids: undefined, text: "hello" }, true],
] as const)("a stream does not go on when %s: its client is told", async (_, change, resumes) => {
  const { ask, good } = await pair({ resumes: true }, { resumes });
  const ends = await eventsOf(await ask("/generate", { ...stream, ...change }));
  expect(ends.isBroken).toBe(true);
  expect(ends.data.at(-1)).toMatchObject({ error: { message: expect.any(String) } });
  expect(good.served).toBe(0);
});

test("an engine that was lost behind its last token leaves a whole stream", async () => {
  const bad = await startEngine({ resumes: true, after: 10 });
  bad.mode = "dies in the stream";
  const { ask } = await openRouter([bad, await startEngine({ resumes: true })]);
  for (let i = 0; i < 2; i++) {
    const { data, isDone } = await eventsOf(await ask("/generate", stream));
    expect(data).toHaveLength(10);
    expect(isDone).toBe(true);
  }
});
