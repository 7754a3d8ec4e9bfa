// A process that has weights and the text of their table, and serves both from the native data plane. Node 20 runs the built package here.
import { readFile } from "node:fs/promises";
import { openVersionStore } from "@muster/collectives";

const key = Uint8Array.from({ length: 32 }, (_, i) => i);

process.once("disconnect", () => process.exit());
process.on("message", async ({ job, member, socketDir, path, id }) => {
  const table = new Uint8Array(await readFile(path));
  const slotBytes = table.length + 1024;
  const store = await openVersionStore({ key, job, member, socketDir, tcpHost: "127.0.0.1", slotBytes });
  const sections = await store.publish(id, { weights: new Uint8Array(64), table });
  process.send({ addresses: store.addresses, table: sections.find(({ name }) => name === "table") });
});
