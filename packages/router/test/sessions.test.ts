import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { eventsOf, type OpenedRouter, openRouter, startEngine } from "./support/open-router.ts";

interface Message {
  readonly role: string;
  readonly content: string;
}
interface Trace {
  readonly turns: number;
  readonly trace: readonly { readonly parent: number | null; readonly added: readonly Message[] }[];
  readonly samples: readonly {
    readonly turns: readonly number[];
    readonly tokens: readonly number[];
    readonly prompt_length: number;
    readonly loss_mask: readonly number[];
    readonly logprobs: readonly number[];
    readonly versions: readonly (string | null)[];
    readonly reward: number | null;
  }[];
}

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-sessions-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

const say = (content: string): Message => ({ role: "user", content });
const bodyOf = (messages: readonly Message[], more: object = {}) => ({ model: "m", messages, ...more });
const turnAt = (id: string) => `/sessions/${id}/v1/chat/completions`;

async function turn({ ask }: Pick<OpenedRouter, "ask">, id: string, messages: readonly Message[]): Promise<Message> {
  const answer = await ask(turnAt(id), bodyOf(messages));
  expect(answer.status).toBe(200);
  const { choices } = (await answer.json()) as { choices: { message: Message }[] };
  return choices[0]?.message as Message;
}

const traceOf = async ({ ask }: Pick<OpenedRouter, "ask">, id: string): Promise<Trace> =>
  (await (await ask(`/sessions/${id}/trace`)).json()) as Trace;

test("an episode is one trajectory: what was drawn has mask 1, prompts and results of tools have 0", async () => {
  const opened = await openRouter([await startEngine({ version: "7" })], {}, { sessions: folder() });
  const begun = (await (await opened.ask("/sessions", { session_id: "a", metadata: { task: 3 } })).json()) as object;
  expect(begun).toEqual({
    ...{ session_id: "a", base_url: `${opened.url}/sessions/a/v1`, api_key: expect.stringMatching(/^[0-9a-f]{48}$/) },
  });
  const first = [say("one")];
  const answer = await turn(opened, "a", first);
  const tool: Message = { role: "tool", content: "42" };
  const second = await turn(opened, "a", [...first, answer, tool]);
  const rewarded = await opened.ask("/sessions/a/reward", { reward: 0.5 });
  expect(await rewarded.json()).toMatchObject({ turns: 2, reward: 0.5, metadata: { task: 3 }, ended: null });
  const { trace, samples } = await traceOf(opened, "a");
  expect(trace).toMatchObject([
    { parent: null, added: first, weight_versions: [{ version: "7", start: 0, end: 4 }] },
    { parent: 0, added: [tool] },
  ]);
  const text = `one${answer.content}42${second.content}`;
  expect(samples).toEqual([
    {
      turns: [0, 1],
      tokens: Array.from(text, (character) => character.charCodeAt(0)),
      prompt_length: 3,
      loss_mask: [1, 1, 1, 1, 0, 0, 1, 1, 1, 1],
      logprobs: Array.from(text.slice(3), (c, i) => (i === 4 || i === 5 ? 0 : -c.charCodeAt(0) / 100)),
      versions: ["7", "7", "7", "7", null, null, "7", "7", "7", "7"],
      reward: 0.5,
    },
  ]);
});

test("branches share no trained token: each response is in exactly one trajectory", async () => {
  const opened = await openRouter([await startEngine()], {}, { sessions: folder() });
  await opened.ask("/sessions", { session_id: "a" });
  const first = [say("one")];
  const answer = await turn(opened, "a", first);
  await turn(opened, "a", [...first, answer, say("left")]);
  await turn(opened, "a", [...first, answer, say("right")]);
  await turn(opened, "a", [say("unrelated")]);
  const { trace, samples } = await traceOf(opened, "a");
  expect(trace.map(({ parent }) => parent)).toEqual([null, 0, 0, null]);
  expect(samples.map(({ turns }) => turns)).toEqual([[0, 1], [2], [3]]);
  expect(samples.map(({ loss_mask: mask }) => mask.filter((bit) => bit === 1).length)).toEqual([8, 4, 4]);
});

test("the same request has the same answer, at once, after a restart, and without any engine", async () => {
  const sessions = folder();
  const engine = await startEngine({ latencyMs: 30 });
  const before = await openRouter([engine], {}, { sessions });
  await before.ask("/sessions", { session_id: "a" });
  const messages = [say("one")];
  const answers = await Promise.all(Array.from({ length: 5 }, () => turn(before, "a", messages)));
  expect(engine.requests).toHaveLength(1);
  await before.router.close(1_000);
  const after = await openRouter([], {}, { sessions });
  expect([await turn(after, "a", messages)]).toEqual(answers.slice(0, 1));
  expect(new Set(answers.map(({ content }) => content)).size).toBe(1);
  // A stream of it is the same answer in events.
  const events = await eventsOf(await after.ask(turnAt("a"), bodyOf(messages, { stream: true })));
  expect(events).toMatchObject({
    ...{ isDone: true, isBroken: false },
    data: [
      { choices: [{ delta: { role: "assistant" } }] },
      { choices: [{ delta: { content: answers[0]?.content } }] },
      { choices: [{ finish_reason: "stop" }] },
    ],
  });
  expect((await traceOf(after, "a")).turns).toBe(1);
});

test("an agent that leaves in the middle of a turn finds its answer when it comes back", async () => {
  const engine = await startEngine({ latencyMs: 80 });
  const opened = await openRouter([engine], {}, { sessions: folder() });
  await opened.ask("/sessions", { session_id: "a" });
  const gone = fetch(`${opened.url}${turnAt("a")}`, {
    ...{ method: "POST", body: JSON.stringify(bodyOf([say("one")])), signal: AbortSignal.timeout(40) },
    headers: { "content-type": "application/json" },
  });
  await expect(gone).rejects.toThrow();
  await turn(opened, "a", [say("one")]);
  expect(engine.requests).toHaveLength(1);
});

test("an engine that dies in a turn is replaced by another one, which draws the same", async () => {
  const dying = await startEngine({ version: "1" });
  const other = await startEngine({ version: "1" });
  const alone = await openRouter([other], {}, { sessions: folder() });
  await alone.ask("/sessions", { session_id: "a" });
  const undisturbed = await turn(alone, "a", [say("one")]);
  dying.mode = "dies in its answer";
  const opened = await openRouter([dying, other], {}, { sessions: folder() });
  await opened.ask("/sessions", { session_id: "a" });
  expect(await turn(opened, "a", [say("one")])).toEqual(undisturbed);
});

test("half a line at the end is dropped and written over; damage anywhere else is refused, of that session alone", async () => {
  const sessions = folder();
  const engine = await startEngine();
  const before = await openRouter([engine], {}, { sessions });
  for (const id of ["a", "b"]) {
    await before.ask("/sessions", { session_id: id });
    await turn(before, id, [say("one")]);
  }
  await before.router.close(1_000);
  appendFileSync(join(sessions, "a.jsonl"), '00000000 {"kind":"turn"');
  const [begin, ...rest] = readFileSync(join(sessions, "b.jsonl"), "utf8").split("\n");
  writeFileSync(join(sessions, "b.jsonl"), [begin?.replace("begin", "began"), ...rest].join("\n"));
  const middle = await openRouter([engine], {}, { sessions });
  await turn(middle, "a", [say("two")]);
  expect((await middle.ask("/sessions/b")).status).toBe(500);
  await middle.router.close(1_000);
  const after = await openRouter([], {}, { sessions });
  expect((await traceOf(after, "a")).turns).toBe(2);
});

test("nothing comes behind the end of a session; what was answered can be repeated", async () => {
  const opened = await openRouter([await startEngine()], {}, { sessions: folder() });
  await opened.ask("/sessions", { session_id: "a" });
  const answer = await turn(opened, "a", [say("one")]);
  await opened.ask("/sessions/a/end", {});
  expect(await (await opened.ask("/sessions/a/end", {})).json()).toMatchObject({ ended: "asked", turns: 1 });
  expect(await turn(opened, "a", [say("one")])).toEqual(answer);
  for (const [path, body] of [
    [turnAt("a"), bodyOf([say("two")])],
    ["/sessions/a/reward", { reward: 1 }],
  ] as const) {
    const refused = await opened.ask(path, body);
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ error: { code: "session_ended" } });
  }
});

test("an unused session ends, and full ones and full folders say so", async () => {
  const bounds = { idleMs: 150, sessionsMax: 2, turnsMax: 1, bytesMax: 1_500 };
  const sessions = folder();
  const opened = await openRouter([await startEngine()], { sessions: bounds }, { sessions });
  await opened.ask("/sessions", { session_id: "a" });
  await turn(opened, "a", [say("one")]);
  const full = await opened.ask(turnAt("a"), bodyOf([say("two")]));
  expect(await full.json()).toMatchObject({
    error: { code: "session_full", message: expect.stringContaining("1 turns") },
  });
  await opened.ask("/sessions", { session_id: "b" });
  const large = await opened.ask(turnAt("b"), bodyOf([say("x".repeat(1_000))]));
  expect(await large.json()).toMatchObject({
    error: { code: "session_full", message: expect.stringContaining("1500") },
  });
  const third = await opened.ask("/sessions", { session_id: "c" });
  expect([third.status, readdirSync(sessions).length]).toEqual([503, 2]);
  await fetch(`${opened.url}/sessions/b`, { method: "DELETE" });
  expect((await opened.ask("/sessions", { session_id: "c" })).status).toBe(200);
  await expect
    .poll(async () => await (await opened.ask("/sessions/a")).json(), { timeout: 5_000 })
    .toMatchObject({ ended: "idle" });
});

test("a reward may say what it is made of and what is to be kept: it is on disk with the session, and told beside the session's own metadata", async () => {
  const sessions = folder();
  const first = await openRouter([await startEngine()], {}, { sessions });
  await first.ask("/sessions", { session_id: "a", metadata: { task: 3 } });
  const posted = { reward: 0.75, components: { right: 0.5, form: 0.25 }, metadata: { judge: "rules" } };
  for (let again = 0; again < 2; again++) expect((await first.ask("/sessions/a/reward", posted)).status).toBe(200);
  expect(readFileSync(join(sessions, "a.jsonl"), "utf8").match(/"kind":"reward"/g)).toHaveLength(1);
  await first.router.close(0);
  const second = await openRouter([], {}, { sessions });
  expect(await (await second.ask("/sessions/a")).json()).toEqual({
    ...{ session_id: "a", metadata: { task: 3 }, turns: 0, ended: null, reward: 0.75 },
    ...{ components: { form: 0.25, right: 0.5 }, reward_metadata: { judge: "rules" } },
  });
  // The newest counts, with all that it has and nothing of the one before.
  const { components, ...rest } = (await (await second.ask("/sessions/a/reward", { reward: 1 })).json()) as {
    components?: unknown;
  };
  expect([components, rest]).toEqual([undefined, expect.objectContaining({ reward: 1, metadata: { task: 3 } })]);
});

test.each([
  ["/sessions", { session_id: "../a" }, "session_id"],
  ["/sessions", { metadata: 3 }, "metadata"],
  [turnAt("a"), { messages: [] }, "messages"],
  [turnAt("a"), bodyOf([say("one")], { n: 2 }), "n must be 1"],
  [turnAt("a"), bodyOf([say("one")], { logprobs: true }), "logprobs"],
  ["/sessions/a/reward", { reward: "1" }, 'reward is the text "1"; it must be a number'],
  ["/sessions/a/reward", { components: { form: 1 } }, "reward is null"],
  ["/sessions/a/reward", { reward: 1, components: { form: "good" } }, "components.form"],
  ["/sessions/a/reward", { reward: 1, components: [1] }, "components"],
  ["/sessions/a/reward", { reward: 1, components: { "a b": 1 } }, "names of at most 48"],
  [
    "/sessions/a/reward",
    { reward: 1, components: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`c${i}`, i])) },
    "at most 16",
  ],
  ["/sessions/a/reward", { reward: 1, metadata: { text: "x".repeat(3_000) } }, "at most 2048 bytes"],
  ["/sessions/a/reward", { reward: 1, component: { form: 1 } }, "component is"],
])("%s with %j is refused by the name of its field", async (path, body, field) => {
  const opened = await openRouter([await startEngine()], {}, { sessions: folder() });
  await opened.ask("/sessions", { session_id: "a" });
  const refused = await opened.ask(path, body);
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({ error: { message: expect.stringContaining(field) } });
});

test("an engine that gives no tokens fails the first turn, and sessions that are not there are 404", async () => {
  const engine = await startEngine();
  const opened = await openRouter([engine], {}, { sessions: folder() });
  expect((await opened.ask(turnAt("none"), bodyOf([say("one")]))).status).toBe(404);
  await opened.ask("/sessions", { session_id: "a" });
  engine.givesTokens = false;
  const answer = await opened.ask(turnAt("a"), bodyOf([say("one")]));
  expect(answer.status).toBe(502);
  expect(await answer.json()).toMatchObject({ error: { message: expect.stringContaining("return_token_ids") } });
});

test("two routers do not share a folder", async () => {
  const sessions = folder();
  await openRouter([], {}, { sessions });
  await expect(openRouter([], {}, { sessions })).rejects.toThrow("another router uses it");
});
