/** Sources, receivers and strangers that do what they should not: told in bounded time with the reason, and nothing stays behind. */
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { CheckpointEngineClient, TensorDict } from "../src/index.ts";
import { clientOf, closeAll, coordinator, open } from "./support/clients.ts";

afterEach(closeAll);

const filled = (value: number): TensorDict => ({
  w: { dtype: "uint8", shape: [100], data: new Uint8Array(100).fill(value) },
});
const byteOf = (tensors: TensorDict | undefined) => tensors?.w?.data[0];

async function post(url: string, body: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.status, await answer.text()).toBe(200);
}

/** Offers what a stranger says, in the name of a process that is there. */
const offer = (url: string, { nodeId }: CheckpointEngineClient, version: number, manifest: object) =>
  post(`${url}/offer_weights`, { group_name: "rollout/pp_0", version, sender: nodeId, manifest });

const updatesOf = async (url: string): Promise<readonly { readonly gone_because: string | null }[]> =>
  ((await (await fetch(`${url}/debug/topology`)).json()) as { updates: [] }).updates;

test("two updates at once have a version each, and whoever receives gets each of them whole", async () => {
  const { url } = await coordinator();
  const [actor, rollout] = [await clientOf(url, "actor"), await clientOf(url, "rollout")];
  const updates = [1, 2].map((value) => actor.updateWeightsForRollout(filled(value), { rolloutOnly: true }));
  const received = [await rollout.recvWeight(10), await rollout.recvWeight(10)];
  expect(received.map(({ version, tensors }) => [version, byteOf(tensors)])).toEqual([
    [1, 1],
    [2, 2],
  ]);
  expect((await Promise.all(updates)).map(({ version, missing }) => [version, missing])).toEqual([
    [1, []],
    [2, []],
  ]);
});

test("a version that is given twice is refused, and the first one is served on", async () => {
  const { url } = await coordinator();
  const actor = await clientOf(url, "actor");
  const update = (value: number) => actor.updateWeightsForRollout(filled(value), { rolloutOnly: true, version: 7 });
  await update(1);
  await expect(update(2)).rejects.toThrow("version: 7 is not above 7, the newest of rollout/pp_0; give a higher one");
  const late = await clientOf(url, "rollout");
  expect(byteOf((await late.recvWeight(5)).tensors)).toBe(1);
});

test("a version that one of the roles is beyond already is offered to none", async () => {
  const { url } = await coordinator();
  const actor = await clientOf(url, "actor");
  await actor.updateWeightsForRollout(filled(1), { actorFwdOnly: true, version: 9 });
  await expect(actor.updateWeightsForRollout(filled(2), { version: 5 })).rejects.toThrow(/5 is not above 9.*actor_fwd/);
  expect(await (await fetch(`${url}/weight_offer?group_name=rollout/pp_0`)).json()).toMatchObject({ version: null });
});

test("an offer that makes no sense costs receivers nothing but the wait for the next one", async () => {
  const { url } = await coordinator();
  const [stranger, actor] = [await clientOf(url, "stranger"), await clientOf(url, "actor")];
  const rollout = await clientOf(url, "rollout");
  const said = { key: "k", secret: "s", address: "127.0.0.1:9", memory: null };
  const row = { name: "w", dtype: "uint8", shape: [100], numel: 100, offset: 0 };
  const senseless: readonly (readonly [object, RegExp])[] = [
    [{}, /stranger_0: manifest\.key: /],
    [{ ...said, buffers: [{ bytes: -1, digest: "", tensors: [] }] }, /manifest\.buffers\.0\.bytes: /],
    [{ ...said, buffers: [{ bytes: 2 ** 50, digest: "", tensors: [row] }] }, /is to have 1125899906842624 bytes/],
    [{ ...said, buffers: [{ bytes: 99, digest: "", tensors: [row] }] }, /w does not lie in the buffer of 99 bytes/],
    [{ ...said, buffers: [{ bytes: 9, digest: "", tensors: [{ ...row, dtype: "?" }] }] }, /\? of w is unknown; use/],
    [{ ...said, address: "nowhere", buffers: [] }, /manifest\.address: is no address/],
    [{ ...said, buffers: [], pp_size: 1e9 }, /manifest\.pp_size: /],
  ];
  for (const [index, [manifest, reason]] of senseless.entries()) {
    await offer(url, stranger, index + 1, manifest);
    await expect(rollout.recvWeight(0.3)).rejects.toThrow(reason);
  }
  const update = actor.updateWeightsForRollout(filled(3), { rolloutOnly: true });
  expect([byteOf((await rollout.recvWeight(5)).tensors), (await update).missing]).toEqual([3, []]);
});

test("stages that are of pipelines of different lengths make no version", async () => {
  const { url } = await coordinator();
  const rollout = await clientOf(url, "rollout");
  for (const [pp_rank, pp_size] of [
    [0, 2],
    [1, 3],
  ] as const) {
    const actor = await clientOf(url, "actor", { metadata: { pp_rank, pp_size }, timeoutSeconds: 0.1 });
    await actor.updateWeightsForRollout(filled(pp_rank), { rolloutOnly: true, version: 1 });
  }
  await expect(rollout.recvWeight(0.5)).rejects.toThrow(/stage 1 is of 3 stages, and stage 0 of 2/);
  expect(rollout.weights).toBeNull();
});

test("a wait in vain ends at its time and says for what, or for whom", async () => {
  const { url } = await coordinator();
  const rollout = await clientOf(url, "rollout");
  await expect(rollout.recvWeight(0.1)).rejects.toThrow(/in time: nobody has offered any version of rollout\/pp_0/);
  const first = await clientOf(url, "actor", { metadata: { pp_rank: 0, pp_size: 2 }, timeoutSeconds: 0.1 });
  await first.updateWeightsForRollout(filled(1), { rolloutOnly: true });
  await expect(rollout.recvWeight(0.1)).rejects.toThrow(/nobody has offered any version of rollout\/pp_1/);
  await first.stop();
  await expect(rollout.recvWeight(0.1)).rejects.toThrow(/the source of version 1 of rollout\/pp_0 is gone/);
});

test("a source that gives a byte now and then does not hold a receiver beyond its time", async () => {
  const { url } = await coordinator();
  const [actor, rollout] = [await clientOf(url, "actor"), await clientOf(url, "rollout")];
  const trickle = createServer((socket) => {
    socket.on("error", () => {}).write('{"ok": true, "bytes": 100}\n');
    const timer = setInterval(() => socket.write("x"), 50);
    socket.on("close", () => clearInterval(timer));
  });
  await new Promise<void>((done) => trickle.listen(0, "127.0.0.1", done));
  open.push(async () => void trickle.close());
  const row = { name: "w", dtype: "uint8", shape: [100], numel: 100, offset: 0 };
  const { port } = trickle.address() as AddressInfo;
  const place = { key: "k", secret: "s", address: `127.0.0.1:${port}`, memory: null };
  await offer(url, actor, 1, { ...place, buffers: [{ bytes: 100, digest: "sha256:0", tensors: [row] }] });
  const began = performance.now();
  await expect(rollout.recvWeight(1)).rejects.toThrow(/in time/);
  expect(performance.now() - began, "ms, of the 5 s that all bytes take").toBeLessThan(4_000);
});

test("a transfer that fails leaves nothing at the coordinator, and whoever comes late to it is told", async () => {
  const { url } = await coordinator();
  const [source, dying, late] = [
    await clientOf(url, "actor"),
    await clientOf(url, "rollout"),
    await clientOf(url, "rollout"),
  ];
  const members = [source, dying, late].map(({ nodeId }) => nodeId);
  for (const { backend } of [source, dying, late]) backend.createGroup("g", members);
  const sent = source.backend.broadcastAsync(filled(1), 0, "g");
  await expect.poll(() => updatesOf(url)).toMatchObject([{ gone_because: null }]);
  await dying.stop();
  await expect(sent.wait()).rejects.toThrow(/rollout_0.*died before it held everything/);
  expect(await updatesOf(url)).toMatchObject([{ gone_because: "it was cleared" }]);
  await expect(late.backend.broadcast({}, 0, "g")).rejects.toThrow(/410.*is over, it was cleared/);
  expect(source.metrics.getAll().gauges.memory_buffer_usage_bytes).toBe(0);
});

test("a receiver that was frozen until another one got its rank does not say that the rank holds weights", async () => {
  const { url } = await coordinator();
  const frozen = await clientOf(url, "rollout", { heartbeatIntervalSeconds: 60 });
  const topology = async () => (await fetch(`${url}/topology`)).json();
  await expect.poll(topology, { timeout: 4_000 }).toMatchObject({ world_size: 0 });
  const [next, actor] = [await clientOf(url, "rollout"), await clientOf(url, "actor")];
  expect(next.nodeId).toBe(frozen.nodeId);
  const update = actor.updateWeightsForRollout(filled(1), { rolloutOnly: true });
  await expect(frozen.recvWeight(5)).rejects.toThrow(/rollout_0 is held by another process/);
  expect([frozen.weights, frozen.isRegistered]).toEqual([null, false]);
  await next.recvWeight(5);
  expect((await update).held).toEqual([next.nodeId]);
});
