/** What an agent can do to its own episode, over the endpoints that a sampler opens for it. */
import { silentLogger } from "@muster/base";
import { expect, onTestFinished, test, vi } from "vitest";
import { startEpisodeServer } from "../src/index.ts";

const tokenizer = {
  stopTokenIds: [0],
  encode: (text: string) => Int32Array.from(text, (letter) => letter.charCodeAt(0)),
  decode: (ids: ArrayLike<number>) => String.fromCharCode(...Array.from(ids)),
};

/** @param whole - Resolves when turns may be drawn to their end. */
async function begun(whole = Promise.resolve()) {
  const drawing = { now: 0, most: 0 };
  const server = await startEpisodeServer({ logger: silentLogger });
  onTestFinished(() => server.close());
  const episode = await server.begin({
    ...{ name: "3-0-0", tokenizer, model: "m", maxContext: 100 },
    sampling: { temperature: 1, maxNewTokens: 4, stopTokenIds: [0] },
    draw: async () => {
      drawing.most = Math.max(drawing.most, ++drawing.now);
      await whole;
      drawing.now -= 1;
      return {
        ...{ responseIds: Int32Array.of(65, 0), logprobs: Float32Array.of(-1, -1), finish: "stop" },
        ...{ versionAtStart: 5, versionAtEnd: 5 },
      };
    },
    failed: (error) => {
      throw error;
    },
  });
  const ask = (method: string, path: string, body: object = {}): Promise<Response> =>
    fetch(`${episode.url}${path}`, {
      ...{ method, body: JSON.stringify(body) },
      headers: { "content-type": "application/json", authorization: `Bearer ${episode.key}` },
    });
  const turn = (content: string) => ask("POST", "/v1/chat/completions", { messages: [{ role: "user", content }] });
  return { episode, ask, turn, drawing };
}

test("an agent can not take its episode away from its sampler", async () => {
  const { episode, ask, turn } = await begun();
  expect((await turn("a")).status).toBe(200);
  const removed = await ask("DELETE", "");
  expect([removed.status, await removed.text()]).toEqual([403, expect.stringContaining("/end ends it")]);
  await ask("POST", "/reward", { reward: 1 });
  expect(await episode.finish()).toMatchObject({ turns: 1, reward: 1 });
  expect((await turn("b")).status).toBe(401);
});

test("the outcome of an episode has what its agent says of the reward", async () => {
  const { episode, ask, turn } = await begun();
  await turn("a");
  const said = { reward: 0.5, components: { form: 0.5 }, metadata: { tries: 2 } };
  expect((await ask("POST", "/reward", said)).status).toBe(200);
  expect((await ask("POST", "/reward", { reward: 1, components: { form: "good" } })).status).toBe(400);
  expect((await episode.finish()).reward).toEqual(said);
});

test("an agent that asks much at once has sixteen turns at the engine, so that episodes beside it wait for no more", async () => {
  let go = (): void => {};
  const { episode, ask, turn, drawing } = await begun(
    new Promise((resolve) => {
      go = resolve;
    }),
  );
  const asked = Array.from({ length: 60 }, (_, i) => turn(`${i}`));
  await expect.poll(() => drawing.now).toBeGreaterThanOrEqual(16);
  // By now the others have come, too.
  for (let i = 0; i < 60; i++) await ask("POST", "/reward", { reward: i });
  go();
  const answers = await Promise.all(asked);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(drawing).toEqual({ now: 0, most: 16 });
  expect(await episode.finish()).toMatchObject({ turns: 60 });
});

test("an episode is as long as the job allows, however long its tools take", async () => {
  const { episode, turn } = await begun();
  await turn("a");
  const laterMs = Date.now() + 90 * 60_000;
  const now = vi.spyOn(Date, "now").mockImplementation(() => laterMs);
  onTestFinished(() => now.mockRestore());
  expect((await turn("b")).status).toBe(200);
  expect(await episode.finish()).toMatchObject({ turns: 2 });
});
