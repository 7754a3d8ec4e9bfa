/** A journal record on a real nats-server that syncs every write, against the same bytes appended to a file and flushed. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { startTestServer } from "@muster/testkit";
import { compare } from "./lib/compare.mjs";

export const about = "append to the journal against write and fsync";

const record = new Uint8Array(4096).fill(7);

export async function* run() {
  const server = await startTestServer();
  const file = await open(join(server.directory, "plain.log"), "a");
  try {
    const journal = (await server.connect("controller.controller.bench")).journal();
    let seq = await journal.head();
    yield await compare({
      name: "journal append, 4 KiB, durable",
      against: "write + fdatasync",
      clock: "wall",
      async ours(pieces) {
        for (let i = 0; i < pieces; i++) seq = await journal.append(record, seq, `bench.${seq + 1}`);
      },
      async reference(pieces) {
        for (let i = 0; i < pieces; i++) {
          await file.write(record);
          await file.datasync();
        }
      },
    });
  } finally {
    await file.close();
    await server.close();
  }
}
