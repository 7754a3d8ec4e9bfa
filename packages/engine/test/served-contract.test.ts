/** What servers answer beside the plain cases: keys that nobody knows, a cache that is busy, loads that are refused with status 200. */
import { describe, expect, it } from "vitest";
import { inlineWeights } from "../src/internal.ts";
import { kinds, never, requestOf, servedFixture, tokensPath, weights } from "./support/served-fixture.ts";

const { serving } = servedFixture();

it.each(kinds)("takes answers of %s with unknown keys in each of their objects as those without", async (kind) => {
  const { server, engine } = await serving(kind);
  const quiet = await engine.generate([requestOf()], never);
  server.isFromTheFuture = true;
  expect(await engine.generate([requestOf()], never)).toEqual(quiet);
  await engine.updateWeights(inlineWeights(8, weights));
  const [row = []] = await engine.generate([requestOf()], never);
  expect(row.map(({ responseIds }) => responseIds)).toEqual(quiet[0]?.map(({ responseIds }) => responseIds));
  expect(await engine.health({ deep: true, signal: never })).toEqual({ ok: true, state: "up" });
});

describe("SGLang's cache, which is not flushed while requests run", () => {
  it("is flushed in a later try, before the weights are loaded", async () => {
    const { server, engine } = await serving("sglang");
    server.flushFails = 2;
    const from = server.calls.length;
    await engine.updateWeights(inlineWeights(8, weights));
    const paths = server.calls.slice(from).map(({ path }) => path);
    expect(paths.filter((path) => ["/flush_cache", "/update_weights_from_disk"].includes(path))).toEqual([
      ...["/flush_cache", "/flush_cache", "/flush_cache"],
      "/update_weights_from_disk",
    ]);
    expect((await engine.generate([requestOf({ n: 1 })], never))[0]).toMatchObject([{ versionAtStart: 8 }]);
  });

  it("takes the server out when it is not flushed in the time to load, with the reason, and it goes on unpaused", async () => {
    const { server, engine } = await serving("sglang", { load_seconds: 0.35 });
    const loads = server.count("/update_weights_from_disk");
    server.flushFails = Number.POSITIVE_INFINITY;
    await expect(engine.updateWeights(inlineWeights(8, weights))).rejects.toThrow(
      /\/flush_cache refuses the request \(400\): Flush cache failed\. #queue-req: 0, #running-req: 2/,
    );
    expect([server.isPaused, engine.weightVersion()]).toEqual([false, null]);
    expect(server.count("/update_weights_from_disk")).toBe(loads);
    // Of version 7 at first; of 8 as often as 0.35 s allow, by 0.1 s.
    expect(server.count("/flush_cache")).toBeGreaterThan(2);
    expect(server.count("/flush_cache")).toBeLessThan(8);
  });
});

describe.each(["sglang", "vllm"] as const)("a load that %s refuses with status 200", (kind) => {
  const said = "Failed to load weights: size mismatch for model.norm.weight: 64 and 128";

  it("leaves the server out, with what it said, until a load is not refused", async () => {
    const { server, engine } = await serving(kind);
    server.refusal = said;
    const asked = server.count(tokensPath(kind));
    await expect(engine.updateWeights(inlineWeights(8, weights))).rejects.toThrow(`failed (200): ${said}`);
    expect([server.isPaused, engine.weightVersion()]).toEqual([false, null]);
    expect(await engine.health({ deep: false, signal: never })).toMatchObject({ ok: false });
    await expect(engine.generate([requestOf({ n: 1 })], never)).rejects.toThrow(/needs updateWeights/);
    expect(server.count(tokensPath(kind))).toBe(asked);
    server.refusal = "";
    await engine.updateWeights(inlineWeights(8, weights));
    expect((await engine.generate([requestOf({ n: 1 })], never))[0]).toMatchObject([{ versionAtStart: 8 }]);
  });

  it("is said to who draws when the server lost its weights while it served", async () => {
    const { server, engine } = await serving(kind, { start_seconds: 0.4 });
    server.refusal = said;
    server.version = "somebody";
    await expect(engine.generate([requestOf({ n: 1 })], never)).rejects.toThrow(
      new RegExp(`can be used: .*failed \\(200\\): ${said}`),
    );
  });
});
