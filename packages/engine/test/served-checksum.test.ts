/** What servers say of the weights themselves: a name alone is no proof that they were loaded. */
import { waitFor } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { inlineWeights } from "../src/internal.ts";
import { never, requestOf, servedFixture, tokensPath, weights } from "./support/served-fixture.ts";

const { open, serving, start } = servedFixture();

/** Weights that differ from those of zeros in every number. */
const others = new Uint8Array(new Float32Array(weights.length / 4).fill(0.5).buffer);
/** Those, by less than servers in bf16 have. */
const nearly = new Uint8Array(new Float32Array(weights.length / 4).fill(0.5 + 2 ** -20).buffer);

let log: string[];
beforeEach(() => {
  log = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => log.push(String(text)) > 0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe.each(["sglang", "vllm"] as const)("a server of the kind %s that has checksums", (kind) => {
  const path = kind === "sglang" ? "/weights_checker" : "/weight_checker";
  const load = kind === "sglang" ? "/update_weights_from_disk" : "/collective_rpc";

  it("is asked for one after each load, and serves when nothing stands against it", async () => {
    const { server, engine } = await serving(kind);
    for (const [version, bytes] of [
      [8, weights],
      [9, others],
      [10, others],
    ] as const)
      await engine.updateWeights(inlineWeights(version, bytes));
    expect(server.calls.flatMap((call) => (call.path === path ? [call.body] : []))).toEqual(
      Array(4).fill({ action: "checksum" }),
    );
    expect((await engine.generate([requestOf({ n: 2 })], never))[0]).toMatchObject([{ versionAtStart: 10 }, {}]);
    expect(log).toEqual([]);
  });

  it("is not used when it took the name and not the weights, and is when a later load took both", async () => {
    const { server, engine } = await serving(kind, { start_seconds: 0.5 });
    server.loads = "nothing";
    const failing = engine.updateWeights(inlineWeights(8, others));
    await expect(failing).rejects.toThrow(
      /says that it has the weights muster-\w+-v8, and its checksum is still that of muster-\w+-v7, whose weights are others; see/,
    );
    expect([server.version.slice(-3), engine.weightVersion()]).toEqual(["-v8", null]);
    expect(log).toEqual([expect.stringContaining("whose weights are others")]);
    server.loads = "well";
    await engine.updateWeights(inlineWeights(8, others));
    expect(engine.weightVersion()).toBe(8);
  });

  it("may have the same checksum for weights that are the same where it rounds them", async () => {
    const { server, engine } = await serving(kind);
    await engine.updateWeights(inlineWeights(8, others));
    server.loads = "nothing";
    await engine.updateWeights(inlineWeights(9, nearly));
    expect(engine.weightVersion()).toBe(9);
  });

  it("is taken out when one before it has other bytes of the same files, which the log says, and loads again", async () => {
    const [first, second] = [await start(kind), await start(kind)];
    second.loads = "other bytes";
    second.startsIn = 3;
    const engine = await open(kind, [first.url, second.url]);
    await engine.updateWeights(inlineWeights(7, weights));
    expect(log).toHaveLength(1);
    expect(log[0]).toContain(
      `the inference server ${second.url} says that it has the weights ${first.version}, and its checksum is not what that of ${first.url} is, of the same files; see that it reads engine.${kind}.folder`,
    );
    expect((await engine.generate([requestOf()], never))[0]).toHaveLength(12);
    expect(second.count(tokensPath(kind))).toBe(0);
    second.loads = "well";
    const drawn = second.count(path);
    await waitFor(() => second.count(path) > drawn, { what: "its checksum is asked for again", timeoutMs: 4_000 });
    expect(second.count(load)).toBeGreaterThan(1);
  });

  it("serves by the name alone when it has no such route, which the log says once", async () => {
    const server = await start(kind);
    server.isHashing = false;
    const engine = await open(kind, [server.url]);
    for (const version of [7, 8]) await engine.updateWeights(inlineWeights(version, weights));
    expect((await engine.generate([requestOf({ n: 1 })], never))[0]).toHaveLength(1);
    expect(log).toEqual([
      `the inference server ${server.url} gives no checksum, so its weights go by their name: ${path} answers 404\n`,
    ]);
  });

  it.each([405, 501])("serves by the name alone when the route answers %i", async (status) => {
    const server = await start(kind);
    server.broken.set(path, status);
    const engine = await open(kind, [server.url]);
    await engine.updateWeights(inlineWeights(7, weights));
    expect(log).toEqual([expect.stringContaining(`${path} answers ${status}`)]);
  });

  it("is brought back when its checksum fails once", async () => {
    const { server, engine } = await serving(kind);
    server.broken.set(path, 500);
    await expect(engine.updateWeights(inlineWeights(8, weights))).rejects.toThrow(`${path} failed (500): broken`);
    server.broken.clear();
    await engine.updateWeights(inlineWeights(8, weights));
    expect((await engine.generate([requestOf({ n: 1 })], never))[0]).toHaveLength(1);
    expect(server.count(load)).toBeGreaterThan(1);
  });

  it("is not asked where it is trusted", async () => {
    const { server } = await serving(kind, { unverified: "accept" });
    expect(server.count(path)).toBe(0);
  });
});
