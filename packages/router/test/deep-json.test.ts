/** JSON that is nested thousands deep: refused by every route with the limit, and harmless where a model draws it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openRouter, startEngine } from "./support/open-router.ts";

const nested = (depth: number): string => `${"[".repeat(depth)}${"]".repeat(depth)}`;

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-deep-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

const user = '{"role":"user","content":"one"}';
const routes: readonly (readonly [path: string, body: string])[] = [
  ...["/generate", "/v1/completions"].map((path) => [path, '{"text":"a","prompt":"a","deep":DEEP}'] as const),
  ...["", "/sessions/a"].flatMap((base) => [
    [`${base}/v1/chat/completions`, `{"messages":[${user}],"deep":DEEP}`] as const,
    [`${base}/v1/messages`, `{"model":"m","max_tokens":4,"messages":[${user}],"deep":DEEP}`] as const,
    [`${base}/v1/responses`, `{"model":"m","input":[${user}],"deep":DEEP}`] as const,
  ]),
  ["/sessions", '{"session_id":"b","metadata":{"deep":DEEP}}'],
  ["/sessions/a/reward", '{"reward":1,"deep":DEEP}'],
  ["/workers", '{"url":"http://127.0.0.1:1","labels":{},"deep":DEEP}'],
  ["/add_worker", '{"url":"http://127.0.0.1:1","deep":DEEP}'],
];

test.each([129, 5_000, 100_000])(
  "every route refuses JSON that is nested %d deep, and names the limit",
  async (depth) => {
    const engine = await startEngine();
    const { ask, router } = await openRouter([engine], {}, { sessions: folder() });
    await ask("/sessions", { session_id: "a" });
    for (const [path, body] of routes) {
      const refused = await ask(path, body.replace("DEEP", nested(depth)));
      expect([path, refused.status, await refused.text()]).toEqual([
        path,
        400,
        expect.stringContaining("nested deeper than 128"),
      ]);
    }
    expect([engine.served, router.workers().length]).toEqual([0, 1]);
  },
);

test("every route takes what is nested less deep", async () => {
  const { ask } = await openRouter([await startEngine()], {}, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  for (const [path, body] of routes) {
    expect(await (await ask(path, body.replace("DEEP", nested(100)))).text()).not.toContain("nested");
  }
});

test("a call whose arguments a model nested thousands deep does not end its session", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine], {}, { sessions: folder() });
  await ask("/sessions", { session_id: "a" });
  const call = { id: "call_1", type: "function", function: { name: "add", arguments: `{"a":${nested(20_000)}}` } };
  engine.calls = [call];
  const path = "/sessions/a/v1/chat/completions";
  const said = { role: "user", content: "one" };
  const first = (await (await ask(path, { messages: [said] })).json()) as { choices: [{ message: object }] };
  expect(first.choices[0].message).toMatchObject({ tool_calls: [call] });
  // The same turn in an API that shows arguments as an object.
  const shown = await ask("/sessions/a/v1/messages", { model: "m", max_tokens: 4, messages: [said] });
  expect([shown.status, (await shown.text()).includes(nested(1_000))]).toEqual([200, true]);
  engine.calls = [];
  const result = { role: "tool", tool_call_id: "call_1", content: "3" };
  const second = await ask(path, { messages: [said, { ...first.choices[0].message, content: "" }, result] });
  expect(second.status).toBe(200);
  const { trace } = (await (await ask("/sessions/a/trace")).json()) as { trace: { parent: number | null }[] };
  expect(trace.map(({ parent }) => parent)).toEqual([null, null, 1]);
});
