/** One replica of the benchmark `delta`: holds a version, or pulls one and passes it on. Does what it is told over IPC, and answers. */
import { randomOf } from "@muster/base";
import { mapVersion, openVersionStore } from "@muster/collectives";
import { serveCalls } from "../lib/member.mjs";

const key = new Uint8Array(32).fill(9);
const job = "bench";
/** @type {import("@muster/collectives").VersionStore} Set by `open`, which comes first. */
let store;
/** Weights of 16 bits an element, of which `change` changes some. */
let weights = new Uint16Array();

serveCalls({
  /** Opens a store; gives its TCP address. */
  async open({ member, socketDir, tcpHost, slotBytes, delta }) {
    store = await openVersionStore({ key, job, member, socketDir, tcpHost, slotBytes, slots: 2, delta });
    return store.addresses[1];
  },
  /** Publishes a version in which about this share of the elements is one larger or smaller than in the version before. */
  async change({ id, bytes, share }) {
    const first = weights.length === 0;
    if (first) weights = Uint16Array.from({ length: bytes / 2 }, (_, i) => (i * 40503) >>> 3);
    const random = randomOf(id.version, 0);
    const mean = 2 / share - 1;
    for (let i = random.below(mean); !first && i < weights.length; i += 1 + random.below(mean))
      weights[i] = (weights[i] ?? 0) + (i % 2 ? 1 : -1);
    return await store.publish(id, { weights: new Uint8Array(weights.buffer) });
  },
  async pull({ id, sections, holders }) {
    const signal = new AbortController().signal;
    const options = { key, job, member: "receiver", holders, id, sections, keepIn: store, deadlineMs: 60_000, signal };
    const mapped = await mapVersion(options);
    mapped.release();
    return { durationMs: mapped.durationMs, from: mapped.from, wireBytes: mapped.wireBytes };
  },
});
