/** Each session has a key of its own: its agent reads, rewards and ends it, and no other agent does. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openRouter, startEngine } from "./support/open-router.ts";

const [inference, admin] = ["i".repeat(32), "a".repeat(32)];
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-sessions-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

interface Begun {
  readonly session_id: string;
  readonly api_key: string;
}

async function openTwo() {
  const sessions = folder();
  const engine = await startEngine();
  const opened = await openRouter([engine], {}, { sessions, inference, admin });
  const begin = async (body: object) => await opened.ask("/sessions", body, bearer(inference));
  const [mine, other] = await Promise.all(
    ["mine", "other"].map(async (id) => (await (await begin({ session_id: id })).json()) as Begun),
  );
  return { ...opened, sessions, engine, begin, mine: mine as Begun, other: other as Begun };
}

const chat = { model: "m", messages: [{ role: "user", content: "one" }] };

test("an agent's key opens its own session, as a bearer token and in x-api-key, and no other one", async () => {
  const { ask, mine, other } = await openTwo();
  const routes: readonly (readonly [string, object | undefined])[] = [
    ["v1/chat/completions", chat],
    ["", undefined],
    ["trace", undefined],
    ["reward", { reward: 1 }],
    ["end", {}],
  ];
  for (const [route, body] of routes) {
    const path = `/sessions/other/${route}`.replace(/\/$/, "");
    expect([route, (await ask(path, body, bearer(mine.api_key))).status]).toEqual([route, 401]);
    expect([route, (await ask(path, body, { "x-api-key": mine.api_key })).status]).toEqual([route, 401]);
    expect([route, (await ask(path, body)).status]).toEqual([route, 401]);
    // Holders of the token of clients begin sessions; they do not end those of others.
    expect([route, (await ask(path, body, bearer(inference))).status]).toEqual([route, 403]);
  }
  expect(await (await ask("/sessions/other", undefined, bearer(admin))).json()).toMatchObject({
    ...{ turns: 0, reward: null, ended: null },
  });
  for (const [route, body] of routes) {
    const path = `/sessions/other/${route}`.replace(/\/$/, "");
    expect([route, (await ask(path, body, { "x-api-key": other.api_key })).status]).toEqual([route, 200]);
  }
});

test("a session that is begun again is that of who knows its key", async () => {
  const { ask, begin, mine } = await openTwo();
  const again = await begin({ session_id: "mine", api_key: mine.api_key });
  expect(await again.json()).toEqual({ ...mine });
  for (const body of [{ session_id: "mine" }, { session_id: "mine", api_key: "x".repeat(40) }]) {
    const refused = await begin(body);
    expect([refused.status, await refused.json()]).toMatchObject([409, { error: { code: "session_exists" } }]);
  }
  const short = await begin({ api_key: "short" });
  expect([short.status, await short.json()]).toMatchObject([
    ...[400, { error: { message: expect.stringContaining("api_key must have 32") } }],
  ]);
  const unknown = await ask("/sessions/none", undefined, bearer(mine.api_key));
  // Who has no token learns nothing of which sessions there are.
  expect([unknown.status, (await ask("/sessions/none", undefined, bearer(inference))).status]).toEqual([401, 404]);
});

test("the disk has no key, and an engine gets none", async () => {
  const { ask, mine, sessions, engine } = await openTwo();
  const answered = await ask("/sessions/mine/v1/chat/completions", chat, {
    ...bearer(mine.api_key),
    "x-api-key": mine.api_key,
  });
  expect(answered.status).toBe(200);
  expect(readFileSync(join(sessions, "mine.jsonl"), "utf8")).not.toContain(mine.api_key);
  expect(engine.requests).toHaveLength(1);
  expect(JSON.stringify(engine.requests)).not.toContain(mine.api_key);
});
