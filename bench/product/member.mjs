/** One process of the raw transfer of the benchmark `product`: publishes a version, or copies its weights into memory of its own. */
import { openVersionStore, pullVersion } from "@muster/collectives";
import { serveCalls } from "../lib/member.mjs";

const key = new Uint8Array(32).fill(9);
const job = "bench";
/** @type {import("@muster/collectives").VersionStore} Set by `open`, which comes first. */
let store;
/** @type {Record<string, Uint8Array>} */
let own = {};

serveCalls({
  /** Makes the memory of the sections, and a store for whoever publishes. @returns Addresses. */
  async open({ member, socketDir, sections, publishes }) {
    own = Object.fromEntries(Object.entries(sections).map(([name, bytes]) => [name, new Uint8Array(bytes).fill(7)]));
    if (!publishes) return [];
    const slotBytes = Object.values(own).reduce((sum, { byteLength }) => sum + byteLength + 128, 0);
    store = await openVersionStore({ key, job, member, socketDir, tcpHost: null, slotBytes, slots: 2 });
    return store.addresses;
  },
  async publish({ id }) {
    for (const bytes of Object.values(own)) new DataView(bytes.buffer).setUint32(0, id.version);
    return await store.publish(id, own);
  },
  async pull({ id, sections, holders }) {
    const signal = new AbortController().signal;
    const wanted = sections.filter((/** @type {{ name: string }} */ { name }) => name in own);
    await pullVersion({
      ...{ key, job, member: `r${process.pid}`, id, holders, sections: wanted, into: own },
      ...{ deadlineMs: 60_000, signal },
    });
  },
});
