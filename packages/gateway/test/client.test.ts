import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { sha256Of } from "../src/client/package-server.ts";
import { type Tensor, type TensorDict, TensorFusion } from "../src/index.ts";
import { clientOf, closeAll, coordinator, open } from "./support/clients.ts";

afterEach(closeAll);

const tensor = (dtype: string, shape: number[], bytes: number): Tensor => ({
  dtype,
  shape,
  data: new Uint8Array(randomBytes(bytes)),
});
const model = () => ({
  ...{
    big: tensor("bfloat16", [512, 1_024], 2 ** 20),
    half: tensor("float16", [3], 6),
    scalar: tensor("float32", [], 4),
  },
  ...{
    empty: tensor("int8", [0, 3], 0),
    nan: { dtype: "float32", shape: [1], data: new Uint8Array([1, 0, 192, 127]) },
  },
});

/** What tensors are, short enough to be compared quickly. */
const sumOf = (tensors: TensorDict | undefined) =>
  Object.entries(tensors ?? {}).map(([name, { dtype, shape, data }]) => [
    name,
    dtype,
    shape,
    createHash("sha1").update(data).digest("hex"),
  ]);

test("who joins between two stages of a pipeline gets the next version, and the stage behind does not wait for it", async () => {
  const { url } = await coordinator();
  const stage = (pp_rank: number) =>
    clientOf(url, "actor", { metadata: { pp_rank, pp_size: 2, is_pp_src_rank: true } });
  const [first, second] = [await stage(0), await stage(1)];
  const weights = (name: string): TensorDict => ({ [name]: tensor("int8", [4], 4) });
  for (const _ of [1, 2]) await first.updateWeightsForRollout(weights("a"));
  const late = await clientOf(url, "rollout");
  const received = late.recvWeight(15);
  expect(await second.updateWeightsForRollout(weights("b"))).toMatchObject({ version: 1, missing: [late.nodeId] });
  expect((await second.updateWeightsForRollout(weights("b"))).missing).toEqual([]);
  const { version, tensors } = await received;
  expect([version, Object.keys(tensors)]).toEqual([2, ["a", "b"]]);
});

test("fusion is exact for every type and shape, and begins at the threshold with two tensors", () => {
  const fusion = new TensorFusion();
  const tensors = model();
  const fused = fusion.fuse(tensors);
  expect(sumOf(fusion.unfuse(fused))).toEqual(sumOf(tensors));
  expect(fused.rows.every(({ offset }) => offset % 64 === 0)).toBe(true);
  expect([fusion.shouldFuse(tensors), fusion.shouldFuse({ big: tensors.big })]).toEqual([true, false]);
  const first = fused.rows[0];
  if (first) expect(() => fusion.unfuse({ ...fused, rows: [{ ...first, offset: 2 ** 30 }] })).toThrow(/does not lie/);
});

describe("weights", () => {
  test("reach rollouts and actor_fwd whole, late joiners too, and whoever stops leaves nothing behind", async () => {
    const { url } = await coordinator();
    const actor = await clientOf(url, "actor", { rank: 0, metadata: { pp_rank: 0 } });
    const receivers = [
      await clientOf(url, "rollout"),
      await clientOf(url, "rollout"),
      await clientOf(url, "actor_fwd"),
    ];
    expect(receivers.map(({ nodeId }) => nodeId)).toEqual(["rollout_0", "rollout_1", "actor_fwd_0"]);
    const tensors = model();
    const [result, ...got] = await Promise.all([
      actor.updateWeightsForRollout(tensors),
      ...receivers.map((each) => each.recvWeight()),
    ]);
    expect(result).toMatchObject({ version: 1, held: ["actor_fwd_0", "rollout_0", "rollout_1"], missing: [] });
    for (const { version, digest, tensors: arrived } of got)
      expect([version, digest, sumOf(arrived)]).toEqual([1, result.digest, sumOf(tensors)]);
    const late = await clientOf(url, "rollout");
    expect(sumOf((await late.recvWeight()).tensors)).toEqual(sumOf(tensors));
    expect(actor.metrics.getAll().counters.bytes_sent).toBeGreaterThan(4 * 2 ** 20);
    for (const each of [actor, late, ...receivers]) await each.stop();
    expect(await (await fetch(`${url}/topology`)).json()).toMatchObject({ nodes: {}, world_size: 0 });
  });

  test("reach reference only when it is its turn", async () => {
    const { url } = await coordinator();
    const actor = await clientOf(url, "actor", { rank: 0 });
    const forward = await clientOf(url, "actor_fwd");
    const reference = await clientOf(url, "reference");
    expect(await reference.initProcessGroupsForActorFwdRef(0, 2)).toBeNull();
    expect(await reference.initProcessGroupsForActorFwdRef(1, 2)).toMatchObject({ global_rank: 2, world_size: 3 });
    const first = actor.updateWeightsForActorFwdRef(model(), 0, 2);
    expect((await forward.recvWeight()).version).toBe(1);
    expect((await first).held).toEqual(["actor_fwd_0"]);
    const second = actor.updateWeightsForActorFwdRef(model(), 1, 2);
    await Promise.all([forward.recvWeight(), reference.recvWeight()]);
    expect((await second).held).toEqual(["actor_fwd_0", "reference_0"]);
  });

  test("stay what they were when the source dies midway, and go on with the next source", async () => {
    const { url } = await coordinator();
    const dying = await clientOf(url, "actor");
    const next = await clientOf(url, "actor");
    const rollout = await clientOf(url, "rollout");
    const before = model();
    await Promise.all([dying.updateWeightsForRollout(before, { rolloutOnly: true }), rollout.recvWeight()]);
    // On the way to the first source everything breaks off in the middle.
    const cut = createServer(
      (socket) => void socket.on("error", () => {}).end('{"ok": true, "bytes": 1048576}\nno more'),
    );
    await new Promise<void>((done) => cut.listen(0, "127.0.0.1", done));
    open.push(async () => void cut.close());
    rollout.backend.registerPeer("actor_0", `127.0.0.1:${(cut.address() as AddressInfo).port}`);
    const unheard = dying.updateWeightsForRollout(model(), { rolloutOnly: true });
    const waiting = rollout.recvWeight();
    await expect.poll(() => rollout.metrics.getAll().errors.source ?? 0).toBeGreaterThan(0);
    expect(sumOf(rollout.weights?.tensors)).toEqual(sumOf(before));
    await dying.stop();
    await unheard.catch(() => {});
    const after = model();
    const result = await next.updateWeightsForRollout(after, { rolloutOnly: true });
    const { version, digest, tensors } = await waiting;
    expect([version, digest, sumOf(tensors)]).toEqual([3, result.digest, sumOf(after)]);
  });

  test("of stages that are given the step as version never mix, also after one of them missed a step", async () => {
    const { url } = await coordinator();
    const stageOf = (pp_rank: number) =>
      clientOf(url, "actor", { metadata: { pp_rank, pp_size: 2 }, timeoutSeconds: 1 });
    const stages = [await stageOf(0), await stageOf(1)];
    const rollout = await clientOf(url, "rollout");
    const part = (pp_rank: number, step: number) => ({ [`w${pp_rank}`]: tensor("int8", [step], step) });
    const update = (pp_rank: number, version: number) =>
      stages[pp_rank]?.updateWeightsForRollout(part(pp_rank, version), { rolloutOnly: true, version });
    // The second stage misses step 1, and comes late to step 2.
    await update(0, 1);
    const receiving = rollout.recvWeight();
    await update(0, 2);
    await update(1, 2);
    const { version, tensors } = await receiving;
    expect([version, tensors.w0?.shape, tensors.w1?.shape]).toEqual([2, [2], [2]]);
    await expect(update(1, 2)).rejects.toThrow(/is not above 2/);
  });

  test("cross between this client and the Python one, in both directions", { timeout: 60_000 }, async () => {
    const { url } = await coordinator();
    const tensors = model();
    const actor = await clientOf(url, "actor");
    const update = actor.updateWeightsForRollout(tensors, { rolloutOnly: true });
    const program = `
import asyncio, sys
from muster_dcs import create_client
async def main():
    rollout = await create_client(sys.argv[1], "rollout", heartbeat_interval_seconds=0.2)
    weights = await rollout.recv_weight(20)
    actor = await create_client(sys.argv[1], "actor", heartbeat_interval_seconds=0.2, timeout_seconds=20)
    result = await actor.update_weights_for_rollout(actor_fwd_only=True, tensors=weights.tensors)
    print(weights.digest, result.digest, ",".join(result.held))
    await rollout.stop()
    await actor.stop()
asyncio.run(main())`;
    const forward = await clientOf(url, "actor_fwd");
    const back = forward.recvWeight();
    const folder = join(dirname(fileURLToPath(import.meta.url)), "../../../python/muster_dcs");
    const env = { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: "1" };
    const { stdout } = await promisify(execFile)("python3", ["-c", program, url], { env });
    expect(sumOf((await back).tensors)).toEqual(sumOf(tensors));
    const { digest } = await update;
    expect(stdout.trim()).toBe(`${digest} ${(await back).digest} actor_fwd_0`);
  });
});

test("tensors go from one to one and from one to all", async () => {
  const { url } = await coordinator();
  const nodes = [await clientOf(url, "actor"), await clientOf(url, "actor"), await clientOf(url, "rollout")];
  const members = nodes.map(({ nodeId }) => nodeId);
  for (const { backend } of nodes) backend.createGroup("größe", members);
  const [a, b, c] = nodes.map(({ backend }) => backend);
  if (!a || !b || !c) throw new Error("three nodes were asked for");
  const tensors = model();
  const sent = a.send({ tensors, dstRank: 2, groupName: "größe" });
  const received = c.recv({ srcRank: 0, groupName: "größe", tensorNames: Object.keys(tensors) });
  expect(sumOf(await received.wait())).toEqual(sumOf(tensors));
  await sent.wait();
  expect(sent.isComplete).toBe(true);
  const all = await Promise.all([a, b, c].map((each) => each.broadcast(each === b ? tensors : {}, 1, "größe")));
  expect(all.map(sumOf)).toEqual([tensors, tensors, tensors].map(sumOf));
  a.destroyGroup("größe");
  expect(() => a.send({ tensors, dstRank: 1, groupName: "größe" })).toThrow(/group "größe" is unknown/);
});

// Three coordinators start one after the other; retries wait for up to three seconds between them.
test("a coordinator that comes late is waited for with retries, and one that forgot everybody is told again", {
  timeout: 20_000,
}, async () => {
  const first = await coordinator();
  await first.close();
  const starting = clientOf(first.url, "actor", { retryDelaySeconds: 0.4 });
  const second = await coordinator(first.port);
  const client = await starting;
  await second.close();
  const third = await coordinator(first.port);
  await expect
    .poll(async () => (await fetch(`${third.url}/topology`)).json(), { timeout: 4_000 })
    .toMatchObject({ world_size: 1 });
  expect(client.nodeId).toBe("actor_0");
});

test("an update that the coordinator refuses leaves no bytes in memory", async () => {
  const { url } = await coordinator();
  const actor = await clientOf(url, "actor", { heartbeatIntervalSeconds: 60 });
  await fetch(`${url}/unregister?role=actor&rank=0`, { method: "DELETE" });
  await expect(actor.updateWeightsForRollout(model())).rejects.toThrow(/no living process/);
  expect(actor.metrics.getAll().gauges.memory_buffer_usage_bytes).toBe(0);
});

test("a process that was frozen until another one got its rank publishes nothing under it", async () => {
  const { url } = await coordinator();
  const frozen = await clientOf(url, "actor", { heartbeatIntervalSeconds: 60 });
  await expect
    .poll(async () => (await fetch(`${url}/topology`)).json(), { timeout: 4_000 })
    .toMatchObject({ world_size: 0 });
  const next = await clientOf(url, "actor");
  expect(next.nodeId).toBe(frozen.nodeId);
  await expect(frozen.updateWeightsForRollout(model())).rejects.toThrow(/actor_0 is held by another process/);
  expect((await next.updateWeightsForRollout(model())).version).toBe(1);
});

test("versions rise also when the coordinator began empty, so receivers go on", async () => {
  const first = await coordinator();
  const actor = await clientOf(first.url, "actor");
  const rollout = await clientOf(first.url, "rollout");
  await Promise.all([actor.updateWeightsForRollout(model(), { rolloutOnly: true }), rollout.recvWeight()]);
  await first.close();
  const second = await coordinator(first.port);
  await expect
    .poll(async () => (await fetch(`${second.url}/topology`)).json(), { timeout: 4_000 })
    .toMatchObject({ world_size: 2 });
  const [result, weights] = await Promise.all([
    actor.updateWeightsForRollout(model(), { rolloutOnly: true }),
    rollout.recvWeight(5),
  ]);
  expect([result.version, weights.version]).toEqual([2, 2]);
});

// A hash takes less than 2 GiB at once; the pages are never written, so they take no memory.
test("a buffer of 2 GiB has a digest", { timeout: 60_000 }, () => {
  const zeros = "a7c744c13cc101ed66c29f672f92455547889cc586ce6d44fe76ae824958ea51";
  expect(sha256Of(new Uint8Array(2 ** 31))).toBe(`sha256:${zeros}`);
});

test("a large buffer leaves no listeners on its connection", async () => {
  const warnings: Error[] = [];
  const hear = (warning: Error) => void warnings.push(warning);
  process.on("warning", hear);
  open.push(async () => void process.off("warning", hear));
  const { url } = await coordinator();
  const [actor, rollout] = [await clientOf(url, "actor"), await clientOf(url, "rollout")];
  const tensors = { large: tensor("int8", [2 ** 26], 2 ** 26) };
  await Promise.all([actor.updateWeightsForRollout(tensors, { rolloutOnly: true }), rollout.recvWeight()]);
  expect(warnings.map(({ name }) => name)).not.toContain("MaxListenersExceededWarning");
});
