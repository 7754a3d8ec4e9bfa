/** What a router holds of a stream until its turn is recorded: the answer, and not the events that it came in. */
import { expect, test } from "vitest";
import { AnswerMemory } from "../src/routes/answer-memory.ts";
import { HeldStream } from "../src/routes/held-stream.ts";

const [tokens, answerBytesMax] = [2_000, 64 * 1024 ** 2];
const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1_700_000_000, model: "Qwen/Qwen3-0.6B" };
const eventOf = (choice: object, more: object = {}): Buffer =>
  Buffer.from(
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, finish_reason: null, ...choice }], ...more })}\n\n`,
  );
const events = [
  eventOf({ delta: { role: "assistant", content: "" } }, { prompt_token_ids: [1, 2, 3] }),
  ...Array.from({ length: tokens }, (_, i) => {
    const content = [{ token: " word", logprob: -0.25 - i / 1e4, bytes: [32, 119, 111, 114, 100], top_logprobs: [] }];
    return eventOf({ delta: { content: " word" }, logprobs: { content }, token_ids: [1_000 + i] });
  }),
  eventOf({ delta: {}, finish_reason: "stop" }),
];
const bytes = Buffer.concat(events).length;

/** The answer to these events in a memory of so many bytes, or why there is none. */
async function heldIn(bytesMax: number): Promise<{ readonly outcome: unknown; readonly memory: AnswerMemory }> {
  const memory = new AnswerMemory(bytesMax);
  const held = new HeldStream(answerBytesMax, memory, () => {});
  const closed = new Promise((resolve) => held.once("close", resolve));
  held.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of events) held.write(event);
  held.end();
  await closed;
  try {
    return { outcome: held.answer(), memory };
  } catch (error) {
    return { outcome: (error as Error).message, memory };
  }
}

test("a stream takes less of the memory of all answers than the whole answer would, and has all of its tokens", async () => {
  const { outcome, memory } = await heldIn(1024 ** 3);
  expect(outcome).toMatchObject({
    prompt_token_ids: [1, 2, 3],
    choices: [{ message: { content: " word".repeat(tokens) }, finish_reason: "stop" }],
  });
  const { choices } = outcome as { choices: [{ token_ids: number[]; logprobs: { content: { logprob: number }[] } }] };
  expect(choices[0].token_ids).toHaveLength(tokens);
  expect(choices[0].logprobs.content[1]).toEqual({ logprob: -0.2501 });
  const whole = JSON.stringify(outcome).length;
  expect(bytes / whole).toBeGreaterThan(4);
  expect((await heldIn(whole)).outcome).toEqual(outcome);
  // All of it was given back.
  expect(memory.hold(1024 ** 3)).toBe(true);
});

test("streams that are more than that memory are cut off, and leave nothing in it", async () => {
  const { outcome, memory } = await heldIn(10_000);
  expect(outcome).toBe("answers of all requests together are longer than they may be");
  expect([memory.hold(10_000), memory.hold(1)]).toEqual([true, false]);
});
