/**
 * Long answers through the groups stream: one group of 16 answers of 32,768 tokens (4.7 MB) packed, cut, stored by a real nats-server that syncs every
 * write, and read back whole; against the same bytes written to a file in pieces of the same size, each of them flushed, and read from it.
 */
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fetchBody, storeBody } from "@muster/actors/internal";
import { noMetrics, randomOf, silentLogger } from "@muster/base";
import { createEnveloper, pack, toGroupsBatch } from "@muster/protocol";
import { createOutbox, systemClock } from "@muster/runtime";
import { startTestServer } from "@muster/testkit";
import { compare } from "./lib/compare.mjs";

export const about = "a group of long answers through the groups stream, against a file with the same syncs";

const tokens = 32_768;
const answers = 16;
const messageBytes = 512 * 1024;

/** @param {number} answer @returns {import("@muster/protocol").Trajectory} */
function trajectoryOf(answer) {
  return {
    tokens: Int32Array.from({ length: 256 + tokens }, (_, i) => (i * 2_654_435_761 + answer) % 150_000),
    promptLength: 256,
    logprobs: Float32Array.from({ length: tokens }, (_, i) => -(i % 97) / 16),
    lossMask: new Uint8Array(tokens).fill(1),
    reward: answer / answers,
    status: "completed",
    segments: [{ version: 1, from: 0, to: tokens }],
  };
}

const group = {
  groupId: "1.0",
  step: 1,
  index: 0,
  attempt: 0,
  trajectories: Array.from({ length: answers }, (_, i) => trajectoryOf(i)),
};

/** What a row of milliseconds is in GB/s. @param {import("./lib/compare.mjs").Row} row @param {number} bytes */
const rateOf = ({ name, ours, reference, ratio, spread }, bytes) => ({
  ...{ name: `${name}: rate`, unit: "GB/s", against: "no aim", ratio, spread },
  ...{ ours: bytes / ours / 1e6, reference: bytes / reference / 1e6 },
});

export async function* run() {
  const server = await startTestServer();
  const path = join(server.directory, "plain.bin");
  const file = await open(path, "w");
  try {
    const transport = await server.connect("rollout.r0.i1");
    const reader = await server.connect("policy.p0.i1");
    const controller = await server.connect("controller.controller.bench");
    const identity = { job: server.job, id: "r0", role: /** @type {const} */ ("rollout"), incarnation: "i1" };
    const enveloper = createEnveloper({ ...identity, wallMs: Date.now });
    const onFailed = (/** @type {unknown} */ error) => {
      throw error;
    };
    const outbox = createOutbox({
      ...{ transport, enveloper, clock: systemClock(), random: randomOf(1), logger: silentLogger, metrics: noMetrics },
      ...{ outboxMax: 1_000, onFailed },
    });
    const tools = { outbox, enveloper, identity, messageBytes };
    const packed = pack(toGroupsBatch([group]));
    const store = () =>
      new Promise((resolve, reject) => {
        const body = toGroupsBatch([group]);
        const onStored = (/** @type {import("@muster/protocol").StreamPlace} */ place) => resolve(place.streamSeq);
        if (!storeBody(tools, { kind: "groups.batch", body }, { onStored })) reject(new Error("the outbox is closed"));
      });
    const stored = await compare({
      name: `${(packed.length / 1e6).toFixed(1)} MB stored, in pieces of 512 KiB`,
      against: "write + fdatasync, the same pieces",
      ...{ clock: "wall", unit: "ms", rounds: 9, roundMs: 1 },
      async ours(pieces) {
        for (let i = 0; i < pieces; i++) {
          const seq = await store();
          // The stream holds 2 GiB: what was stored before goes, as after a checkpoint.
          await controller.purge("groups", seq);
        }
      },
      async reference(pieces) {
        for (let i = 0; i < pieces; i++)
          for (let at = 0; at < packed.length; at += messageBytes) {
            await file.write(packed, at, Math.min(messageBytes, packed.length - at), at);
            await file.datasync();
          }
      },
    });
    yield stored;
    yield rateOf(stored, packed.length);
    const seq = await store();
    const fetched = await compare({
      name: `${(packed.length / 1e6).toFixed(1)} MB read, joined and checked`,
      against: "a read of the file",
      ...{ clock: "wall", unit: "ms", rounds: 9, roundMs: 1 },
      async ours(pieces) {
        for (let i = 0; i < pieces; i++) await fetchBody(reader, seq, 2 ** 26);
      },
      async reference(pieces) {
        for (let i = 0; i < pieces; i++) await readFile(path);
      },
    });
    yield fetched;
    yield rateOf(fetched, packed.length);
    outbox.close();
  } finally {
    await file.close();
    await server.close();
  }
}
