/** What an agent can do to its own episode, over the doors that a sampler opens for it. */
import { silentLogger } from "@muster/base";
import { expect, onTestFinished, test, vi } from "vitest";
import { startEpisodeServer } from "../src/index.ts";

const tokenizer = {
  stopTokenIds: [0],
  encode: (text: string) => Int32Array.from(text, (letter) => letter.charCodeAt(0)),
  decode: (ids: ArrayLike<number>) => String.fromCharCode(...Array.from(ids)),
};

async function begun() {
  const server = await startEpisodeServer({ logger: silentLogger });
  onTestFinished(() => server.close());
  const episode = await server.begin({
    ...{ name: "3-0-0", tokenizer, model: "m", maxContext: 100 },
    sampling: { temperature: 1, maxNewTokens: 4, stopTokenIds: [0] },
    draw: async () => ({
      ...{ responseIds: Int32Array.of(65, 0), logprobs: Float32Array.of(-1, -1), finish: "stop" },
      ...{ versionAtStart: 5, versionAtEnd: 5 },
    }),
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
  return { episode, ask, turn };
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

test("an episode is as long as the job allows, however long its tools take", async () => {
  const { episode, turn } = await begun();
  await turn("a");
  const laterMs = Date.now() + 90 * 60_000;
  const now = vi.spyOn(Date, "now").mockImplementation(() => laterMs);
  onTestFinished(() => now.mockRestore());
  expect((await turn("b")).status).toBe(200);
  expect(await episode.finish()).toMatchObject({ turns: 2 });
});
