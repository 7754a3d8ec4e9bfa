/** One replica of the benchmark `chain`: holds a version, or pulls one and passes it on. Does what it is told over IPC, and answers. */
import { mapVersion, openVersionStore } from "@muster/collectives";

const key = new Uint8Array(32).fill(9);
const job = "bench";
let store;

const commands = {
  /** Opens a store; gives its TCP address. */
  async open({ member, socketDir, tcpHost, slotBytes }) {
    store = await openVersionStore({ key, job, member, socketDir, tcpHost, slotBytes, slots: 2 });
    return store.addresses[1];
  },
  async publish({ id, bytes }) {
    return await store.publish(id, { weights: new Uint8Array(bytes).fill(id.version) });
  },
  async pull({ id, sections, holders }) {
    const signal = new AbortController().signal;
    const options = { key, job, member: "receiver", holders, id, sections, keepIn: store, deadlineMs: 60_000, signal };
    const mapped = await mapVersion(options);
    mapped.release();
    return { durationMs: mapped.durationMs, from: mapped.from };
  },
};

process.on("message", async ({ call, options }) => {
  try {
    process.send({ done: await commands[call](options) });
  } catch (error) {
    process.send({ failed: String(error) });
  }
});
process.on("disconnect", () => process.exit(0));
