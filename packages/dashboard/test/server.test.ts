/** The page's server, asked over real HTTP by those it is for and by those it is not for. */
import { request } from "node:http";
import { request as requestEncrypted } from "node:https";
import { MusterError } from "@muster/base";
import { testCertificate, waitFor } from "@muster/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openDashboard } from "../src/index.ts";
import { playJob, someStatus, someStep, token } from "./support/played.ts";

type Played = Awaited<ReturnType<typeof playJob>>;
const open: Played[] = [];
const play = async (options: Parameters<typeof playJob>[0] = {}): Promise<Played> => {
  const played = await playJob(options);
  open.push(played);
  return played;
};
afterEach(async () => {
  for (const played of open.splice(0)) await played.close();
});

const authorization = `Bearer ${token}`;
const ask = async (url: string, init: RequestInit = {}): Promise<{ status: number; error?: string; body: unknown }> => {
  const answer = await fetch(url, { ...init, headers: { authorization, ...init.headers } });
  const body = (await answer.json()) as { error?: string };
  return { status: answer.status, body, ...(body.error === undefined ? {} : { error: body.error }) };
};
const give = (base: string, kind: string, body: unknown) =>
  ask(`${base}/api/v1/commands/${kind}`, {
    ...{ method: "POST", headers: { "content-type": "application/json" } },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

/** `fetch` does not let its caller name another host. */
const statusAs = (base: string, headers: Record<string, string>): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const asked = request(`${base}/api/v1/status`, { headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on("error", reject).end();
  });

/** Reads the stream until it has said an event of each kind. */
async function eventsOf(
  base: string,
  kinds: readonly string[],
  act: () => Promise<unknown> = async () => {},
): Promise<string> {
  const ending = new AbortController();
  const answer = await fetch(`${base}/api/v1/stream`, { headers: { authorization }, signal: ending.signal });
  let text = "";
  let isActed = false;
  for await (const chunk of answer.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString();
    if (!isActed) await act();
    isActed = true;
    if (kinds.every((kind) => text.includes(`event: ${kind}\n`))) break;
  }
  ending.abort();
  return text;
}

describe("the page", () => {
  it("comes with a policy that lets a browser load nothing from elsewhere, and without a token in it", async () => {
    const { base } = await play();
    const answer = await fetch(base);
    const policy = answer.headers.get("content-security-policy") ?? "";
    expect([answer.status, policy.includes("default-src 'none'"), policy.includes("http")]).toEqual([200, true, false]);
    const html = await answer.text();
    expect(html).not.toContain(token);
    const paths = [...html.matchAll(/(?:src|href)="(\/[^"]+)"|"(\/assets\/lib\/[^"]+)"/g)].map(
      ([, a, b]) => a ?? b ?? "",
    );
    expect(paths.length).toBeGreaterThan(5);
    for (const path of paths) expect([path, (await fetch(`${base}${path}`)).status]).toEqual([path, 200]);
  });

  it("streams all that is known, then each fact and status as it comes", async () => {
    const { base, say, show } = await play();
    await say("step.committed", someStep(1));
    const text = await eventsOf(base, ["view", "fact", "status"], async () => {
      await show(someStatus());
      await say("step.committed", someStep(2));
    });
    const view = JSON.parse(/^event: view\ndata: (.*)$/m.exec(text)?.[1] ?? "{}");
    expect(view.known.steps.map(({ step }: { step: number }) => step)).toEqual([1]);
    expect(text).toContain('"step":2');
  });
});

describe("access", () => {
  it("needs the token for everything that is told of a job", async () => {
    const { base } = await play();
    const none = await ask(`${base}/api/v1/status`, { headers: { authorization: "" } });
    expect(none).toMatchObject({ status: 401, error: "a token is missing: authorization: Bearer TOKEN" });
    const wrong = await ask(`${base}/api/v1/stream`, { headers: { authorization: "Bearer another-token-of-length" } });
    expect(wrong).toMatchObject({ status: 401, error: "the token is not the one of this server" });
    expect((await ask(`${base}/api/v1/status`)).status).toBe(200);
  });

  it("is refused to requests under another name, and to those of other pages, whatever token they have", async () => {
    const { base } = await play({ hostNames: ["desk.example"] });
    const { port } = new URL(base);
    expect(await statusAs(base, { host: `evil.example:${port}`, authorization })).toBe(421);
    expect(await statusAs(base, { host: `desk.example:${port}`, authorization })).toBe(200);
    // A proxy with TLS stands at a port of its own, which browsers leave out.
    expect(await statusAs(base, { host: "desk.example", origin: "https://desk.example", authorization })).toBe(200);
    expect(await statusAs(base, { host: "127.0.0.1", authorization })).toBe(421);
    expect(await statusAs(base, { host: `localhost:${port}`, authorization })).toBe(200);
    expect(await statusAs(base, { origin: "http://evil.example", authorization })).toBe(403);
    expect(await statusAs(base, { origin: base, authorization })).toBe(200);
  });

  it("ends for readers beyond a bound, and comes back when one leaves", async () => {
    const { base } = await play();
    const readers = Array.from({ length: 64 }, () => new AbortController());
    await Promise.all(
      readers.map(({ signal }) => fetch(`${base}/api/v1/stream`, { headers: { authorization }, signal })),
    );
    expect(await ask(`${base}/api/v1/stream`)).toMatchObject({
      status: 503,
      error: "64 pages are open already; close one",
    });
    for (const reader of readers) reader.abort();
    const isFree = async () => {
      const ending = new AbortController();
      const { status } = await fetch(`${base}/api/v1/stream`, { headers: { authorization }, signal: ending.signal });
      ending.abort();
      return status === 200;
    };
    await waitFor(isFree, { what: "a place for a reader" });
  });
});

describe("commands", () => {
  it("reach the controller, and are answered when it has taken them", async () => {
    const { base, asked } = await play();
    const answer = await give(base, "fleet.scale", { rollout: 4 });
    expect(answer).toMatchObject({ status: 200, body: { outcome: "accepted", detail: "taken" } });
    expect(asked).toMatchObject([{ kind: "fleet.scale", role: "operator", body: { rollout: 4 } }]);
  });

  it("that are wrong get one sentence that names the field, and reach nobody", async () => {
    const { base, asked } = await play();
    expect(await give(base, "fleet.shrink", {})).toMatchObject({
      status: 404,
      error: expect.stringContaining('"fleet.shrink" is no command'),
    });
    const kinds = await give(base, "fleet.scale", { rollout: -1 });
    expect(kinds).toMatchObject({ status: 400, error: expect.stringContaining("fleet.scale: rollout:") });
    expect(await give(base, "fleet.cordon", { id: "a b" })).toMatchObject({
      status: 400,
      error: expect.stringContaining("id"),
    });
    expect((await give(base, "fleet.scale", "{")).status).toBe(400);
    expect((await give(base, "fleet.scale", { rollout: 1, more: "x".repeat(20_000) })).status).toBe(413);
    const typed = await ask(`${base}/api/v1/commands/fleet.scale`, { method: "POST", body: "rollout=4" });
    expect(typed.status).toBe(415);
    expect(asked).toEqual([]);
  });

  it("are 503 while the broker does not answer: they may be given again", async () => {
    const { base, client } = await play();
    const away = new MusterError("MUSTER_ERR_BROKER_TIMEOUT", "reading got no answer", { retryable: true, params: {} });
    vi.spyOn(client, "command").mockRejectedValue(away);
    expect(await give(base, "fleet.scale", { rollout: 4 })).toMatchObject({
      ...{ status: 503, error: "reading got no answer" },
    });
  });

  it("are refused by a page that is read only", async () => {
    const { base, asked } = await play({ isReadOnly: true });
    expect(await give(base, "fleet.scale", { rollout: 4 })).toMatchObject({ status: 403 });
    expect(asked).toEqual([]);
  });

  // A thousand requests take a while on a machine that is busy with other tests.
  it("go on while a thousand bad ones come", { timeout: 60_000 }, async () => {
    const { base, asked } = await play();
    for (let i = 0; i < 20; i += 1) {
      const codes = await Promise.all(Array.from({ length: 50 }, () => give(base, "fleet.scale", { rollout: "many" })));
      expect(new Set(codes.map(({ status }) => status))).toEqual(new Set([400]));
    }
    expect((await give(base, "fleet.scale", { rollout: 2 })).status).toBe(200);
    expect(asked).toHaveLength(1);
  });
});

it("a port that somebody has is named, with the option that changes it", async () => {
  const { dashboard } = await play();
  const second = playJob({ port: dashboard.port });
  await expect(second).rejects.toThrow(/MUSTER_ERR_DASHBOARD_LISTEN|can not listen at 127\.0\.0\.1:\d+.*--listen/);
  expect(openDashboard).toBeTypeOf("function");
});

it("the page speaks HTTPS with a certificate, and nothing else beside it", async () => {
  const { dashboard, base } = await play({ tls: testCertificate });
  const answer = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    requestEncrypted(`https://localhost:${dashboard.port}/api/v1/status`, {
      ca: testCertificate.cert,
      headers: { authorization, origin: `https://localhost:${dashboard.port}` },
    })
      .on("response", async (response) =>
        resolve({ status: response.statusCode, text: (await response.toArray()).join("") }),
      )
      .on("error", reject)
      .end();
  });
  expect(answer).toEqual({ status: 200, text: expect.stringContaining("status") });
  await expect(fetch(base)).rejects.toThrow();
});
