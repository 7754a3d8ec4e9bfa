/** Processes of a replica that take their own parts of a version: what each gets, and that nothing less than all of them is a version held. */
import { randomOf, silentLogger } from "@muster/base";
import { pullShards, type VersionStore } from "@muster/collectives";
import type { RankCut, WeightUpdate } from "@muster/engine";
import type { Holder, JobConfig, Section } from "@muster/protocol";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { decodeRecord } from "../src/controller/index.ts";
import { type Ports, rolloutRoleOn } from "../src/index.ts";
import { Receipts, rankShards, ticketOf, writeReceipt } from "../src/internal.ts";
import { cutOver } from "./support/cut-over.ts";
import { clock } from "./support/environment.ts";
import { digestIn, expectBalanced } from "./support/proofs.ts";
import { checkpointRole, policyRole, ports } from "./support/roles.ts";
import { digestOfLocalTraining, smallConfig } from "./support/small-config.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000 });

const id = { lineage: 0, version: 3 };
const ordered = { ...id, order: "order-2" };
const dataKey = Uint8Array.from({ length: 32 }, (_, i) => i);
const { signal } = new AbortController();

let directory: TempDirectory | undefined;
const stores: VersionStore[] = [];
let job: SmallJob | undefined;
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  await job?.close();
  await directory?.remove();
  directory = undefined;
  job = undefined;
});

/** Publishes weights of so many bytes under the version, as a trainer of one process does. */
async function publish(
  member: string,
  weights: Uint8Array,
  tcpHost: string | null = null,
): Promise<{ holder: Holder; section: Section }> {
  directory ??= await makeTempDirectory();
  const where = { key: dataKey, job: "shards", member, socketDir: directory.path, tcpHost };
  const store = await ports.versionStore({ ...where, slotBytes: weights.length + 64 });
  stores.push(store);
  const [info] = await store.publish(id, { weights });
  if (!info) throw new Error("nothing was published");
  return { holder: { id: member, addresses: [...store.addresses] }, section: { ...info, name: "weights" } };
}

const sizes = [160, 96, 20] as const;
const whole = (() => {
  const random = randomOf(18, 2);
  return Uint8Array.from({ length: 160 + 96 + 20 }, () => random.below(256));
})();

function shardsOfRank(rank: number, cut: RankCut) {
  const given = {
    ports,
    clock,
    logger: silentLogger,
    replica: "rollout-0",
    cut,
    trainers: null,
    job: "shards",
    dataKey,
  };
  return rankShards({ ...given, rank, config: smallConfig("/nowhere") });
}

/** The bytes of a part, tensor by tensor, cut out by hand. */
function expectedOf({ name, start, length }: { name: string; start: number; length: number }): number[] {
  if (name === "rows") return [...whole.subarray(start * 16, (start + length) * 16)];
  if (name === "norm") return [...whole.subarray(256)];
  return Array.from({ length: 6 }, (_, row) => [
    ...whole.subarray(160 + row * 16 + start * 2, 160 + row * 16 + (start + length) * 2),
  ]).flat();
}

describe("the part of a process", () => {
  it.each([
    [1, 1],
    [2, 1],
    [3, 1],
    [2, 2],
  ])("is its rows and columns of each tensor, of tp %i and pp %i", async (tp, pp) => {
    const { holder, section } = await publish("policy-0", whole);
    const cut = cutOver(tp, pp);
    const taken: string[] = [];
    for (let rank = 0; rank < tp * pp; rank++) {
      const shards = shardsOfRank(rank, cut);
      const into = new Uint8Array(shards.bytes);
      const receipt = JSON.parse(
        await shards.pull(ticketOf({ ...ordered, sections: [section], holders: [holder] }), into, signal),
      );
      expect(receipt).toMatchObject({
        ...{ ...ordered, build: ports.engineBuild, rank, bytes: shards.bytes },
        digest: expect.stringMatching(/^xxh3b:/),
      });
      for (const tensor of shards.tensors) {
        expect([...into.subarray(tensor.offsetBytes, tensor.offsetBytes + tensor.sizeBytes)]).toEqual(
          expectedOf(tensor),
        );
        taken.push(tensor.name);
      }
    }
    expect(new Set(taken).size).toBe(sizes.length);
  });

  it("comes from the next holder where the first is gone", async () => {
    const { holder: gone, section } = await publish("policy-0", whole);
    const { holder } = await publish("policy-1", whole);
    await stores[0]?.close();
    const shards = shardsOfRank(1, cutOver(2));
    const into = new Uint8Array(shards.bytes);
    await shards.pull(ticketOf({ ...ordered, sections: [section], holders: [gone, holder] }), into, signal);
    const [rows] = shards.tensors;
    expect([...into.subarray(0, rows?.sizeBytes)]).toEqual([...whole.subarray(80, 160)]);
  });

  it("comes from another host as the blocks that it lies in, and no others", async () => {
    const weights = Uint8Array.from({ length: 2 ** 20 }, (_, i) => (i * 7 + (i >> 12)) % 251);
    const { holder, section } = await publish("policy-0", weights, "127.0.0.1");
    const far = { ...holder, addresses: holder.addresses.filter((address) => address.startsWith("tcp:")) };
    const tensors = [{ name: "rows", shape: [1024, 256], elementBytes: 4, partition: 0, layer: 0 }] as const;
    for (const rank of [0, 1, 2, 3]) {
      const shards = shardsOfRank(rank, { tp: 4, pp: 1, tensors });
      const into = new Uint8Array(shards.bytes);
      const ticket = ticketOf({ ...ordered, sections: [section], holders: [far] });
      expect(JSON.parse(await shards.pull(ticket, into, signal))).toMatchObject({ bytes: 2 ** 18, wireBytes: 2 ** 18 });
      expect(Buffer.compare(into, weights.subarray(rank * 2 ** 18, (rank + 1) * 2 ** 18))).toBe(0);
    }
  });

  it("is refused where the bytes are others than were committed, and there is no receipt for it", async () => {
    const { holder, section } = await publish("policy-0", whole);
    const other = {
      ...section,
      digest: `${section.digest.slice(0, -2)}${section.digest.endsWith("00") ? "11" : "00"}`,
    };
    const shards = shardsOfRank(0, cutOver(2));
    const pulled = shards.pull(
      ticketOf({ ...ordered, sections: [other], holders: [holder] }),
      new Uint8Array(shards.bytes),
      signal,
    );
    await expect(pulled).rejects.toMatchObject({ code: expect.stringMatching(/^MUSTER_ERR_/) });
  });

  it.each([
    ["no JSON", "{", "MUSTER_ERR_SHARD_TICKET"],
    ["too long", " ".repeat(2 ** 21 + 1), "MUSTER_ERR_SHARD_TICKET"],
    ["without holders", JSON.stringify({ ...ordered, sections: [], holders: [] }), "MUSTER_ERR_SHARD_TICKET"],
  ])("is not taken with a ticket that is %s", async (_, text, code) => {
    const shards = shardsOfRank(0, cutOver(2));
    await expect(shards.pull(text, new Uint8Array(shards.bytes), signal)).rejects.toMatchObject({ code });
  });
});

describe("the receipts of a version", () => {
  const wanted = { ...ordered, build: "echo-1" };
  const receipt = { ...wanted, rank: 0, bytes: 8, wireBytes: 6, digest: "xxh64b:00" };
  it("make it held when each rank gave one, and name those that did not", () => {
    const receipts = new Receipts(wanted, [8, 4, 4]);
    receipts.add(writeReceipt(receipt));
    receipts.add(writeReceipt(receipt));
    expect(() => receipts.complete()).toThrow(/version 3 is not held: of 3 ranks there is no receipt .* from 1, 2;/);
    receipts.add(writeReceipt({ ...receipt, rank: 1, bytes: 4, wireBytes: 0 }));
    receipts.add(writeReceipt({ ...receipt, rank: 2, bytes: 4, wireBytes: 4 }));
    expect(receipts.complete()).toEqual({ bytes: 16, wireBytes: 10 });
  });

  it.each([
    ["of another version", { version: 2 }, /rank 0 has version 2 of lineage 0/],
    ["of another lineage", { lineage: 1 }, /rank 0 has version 3 of lineage 1/],
    ["of an earlier order", { order: "order-1" }, /rank 0 gave it for another order of this version/],
    ["of a rank with another build", { build: "echo-2" }, /rank 0 has engine build echo-2, and rank 0 has echo-1/],
    ["of a rank that there is not", { rank: 3 }, /it is of rank 3, and there are 3 ranks/],
    ["of a part of another size", { bytes: 4 }, /rank 0 has 4 bytes, and its part is 8/],
    ["that is none", { digest: "" }, /digest/],
  ])("are refused %s", (_, patch, reason) => {
    const receipts = new Receipts(wanted, [8, 4, 4]);
    expect(() => receipts.add(JSON.stringify({ ...receipt, ...patch }))).toThrow(reason);
  });

  it("are refused of a rank that has other bytes than it said before", () => {
    const receipts = new Receipts(wanted, [8]);
    receipts.add(writeReceipt(receipt));
    expect(() => receipts.add(writeReceipt({ ...receipt, digest: "xxh64b:01" }))).toThrow(
      /rank 0 had xxh64b:00 before/,
    );
  });
});

/** The embedded engine as one of two ranks, each of which takes its own part: they are put together here, where processes would exchange what they compute. */
function rankedPorts(pull: Ports["pullShards"], alter: (receipts: string[]) => string[]): Ports {
  const cutOf = (config: JobConfig): RankCut => {
    const { tensors } = ports.model(config, "rollout");
    const cut = tensors.map(({ name, shape }) => {
      const partition = shape.length > 1 ? 0 : null;
      return { name, shape, elementBytes: 4, partition, layer: "first" as const };
    });
    return { tp: 2, pp: 1, tensors: cut };
  };
  return {
    ...ports,
    rankCut: cutOf,
    rolloutEngine: async (config, own) => {
      if (!own) throw new Error("rank 0 was given no way to its part");
      const engine = await ports.rolloutEngine(config);
      const { tensors } = ports.model(config, "rollout");
      const options = {
        clock,
        logger: silentLogger,
        job: config.job,
        dataKey,
        cut: cutOf(config),
        trainers: null,
        config,
      };
      const other = rankShards({ ...options, ports: { ...ports, pullShards: pull }, replica: "rollout-0", rank: 1 });
      const ranks = [own, other];
      const updateWeights = async (update: WeightUpdate): Promise<void> => {
        if (update.via !== "ranks") throw new Error(`a version came ${update.via}`);
        if (engine.weightVersion() === update.version) return;
        const bytes = new Uint8Array(tensors.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
        const receipts: string[] = [];
        for (const shards of ranks) {
          const part = new Uint8Array(shards.bytes);
          receipts.push(await shards.pull(update.ticket, part, update.signal));
          for (const [i, { start, length, offsetBytes, sizeBytes }] of shards.tensors.entries()) {
            const at = (tensors[i]?.offsetBytes ?? 0) + (start * sizeBytes) / length;
            bytes.set(part.subarray(offsetBytes, offsetBytes + sizeBytes), at);
          }
        }
        for (const receipt of alter(receipts)) update.arrived(receipt);
        const copyTo = async (into: Uint8Array): Promise<void> => into.set(bytes);
        await engine.updateWeights({ version: update.version, via: "inline", bytes: bytes.length, copyTo });
      };
      return new Proxy(engine, {
        get: (target, key) => {
          const value: unknown = key === "updateWeights" ? updateWeights : Reflect.get(target, key, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
  };
}

async function runWith(rolePorts: Ports): Promise<SmallJob> {
  const open = await openJob();
  job = open;
  const controller = await open.startController();
  for (const name of ["policy-0", "policy-1"]) open.startReplica(policyRole, name);
  open.startReplica(checkpointRole, "checkpoint-0");
  open.startReplica(rolloutRoleOn(rolePorts), "rollout-0");
  expect((await endOf(controller)).outcome).toBe("done");
  expectBalanced(controller.snapshot().context.state);
  expect(digestIn(controller.snapshot())).toBe(await digestOfLocalTraining(open.config));
  return open;
}

/** What was reported of each version by the sampler, in order. */
async function reportsOf({ transport }: SmallJob): Promise<readonly string[]> {
  const said: string[] = [];
  for await (const { seq, data } of transport.journal().read(1))
    for (const event of decodeRecord(seq, data).events) {
      if (!("from" in event) || event.from !== "rollout-0") continue;
      if (event.type === "weights.held") said.push(`held ${event.body.version} ${event.body.bytes > 0}`);
      if (event.type === "weights.failed") said.push(`failed ${event.body.version}: ${event.body.cause}`);
    }
  return said;
}

describe("a job whose sampler is several processes that take their own parts", () => {
  it("asks again when the part of one breaks off, holds no version in between, and gets the weights of a quiet run", async () => {
    let failures = 0;
    const pull: Ports["pullShards"] = async (options) => {
      if (options.member === "rollout-0.1" && options.id.version === 2 && failures++ === 0)
        throw new Error("broken off");
      return await pullShards(options);
    };
    const done = await runWith(rankedPorts(pull, (receipts) => receipts));
    const said = await reportsOf(done);
    expect(said.filter((one) => one.startsWith("held"))).toEqual([0, 1, 2, 3].map((version) => `held ${version} true`));
    expect(said.findIndex((one) => one.startsWith("failed 2: broken off"))).toBe(said.indexOf("held 2 true") - 1);
  });

  it("begins again when one of them does not hear: three times in a row there is no word of its part", async () => {
    const open = await openJob([
      "timing.pull=1s",
      "network.starved=500ms",
      "health.interval=200ms",
      "health.timeout=150ms",
    ]);
    job = open;
    await open.startController();
    for (const name of ["policy-0", "policy-1"]) open.startReplica(policyRole, name);
    const deaf = open.startReplica(
      rolloutRoleOn(
        rankedPorts(
          () => new Promise(() => {}),
          (all) => all,
        ),
      ),
      "rollout-0",
    );
    const { outcome, reason } = await deaf.ended;
    expect({ outcome, reason }).toEqual({
      outcome: "failed",
      reason: expect.stringMatching(/taking the parts of version 0 in the 2 processes of this sampler was told to end/),
    });
    const said = await reportsOf(open);
    expect(said).toHaveLength(2);
    for (const one of said) expect(one).toMatch(/^failed 0: taking the parts .* did not end within 950 ms/);
  });

  it("does not hold a version for which the engine leaves out a rank, whatever the engine thinks of it", async () => {
    const open = await openJob();
    job = open;
    await open.startController();
    for (const name of ["policy-0", "policy-1"]) open.startReplica(policyRole, name);
    open.startReplica(rolloutRoleOn(rankedPorts(pullShards, (receipts) => receipts.slice(0, 1))), "rollout-0");
    const said: string[] = [];
    await waitFor(
      async () => {
        said.splice(0, said.length, ...(await reportsOf(open)));
        return said.length > 0;
      },
      { what: "a report on version 0" },
    );
    expect(said[0]).toMatch(/^failed 0: version 0 is not held: of 2 ranks there is no receipt for its part from 1;/);
    expect(said.filter((one) => one.startsWith("held"))).toEqual([]);
  });
});
