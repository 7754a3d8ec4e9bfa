/** The store that a finished run left: its journal and state, as the controller sees them. */
import { join } from "node:path";
import { findNatsServer, type JobRun } from "@muster/testkit";
import { startLocalServer, type Transport } from "@muster/transport";
import { connectAs } from "./broker.ts";

/** Starts the broker of a run that has ended on its store, shows it to `look`, and stops it again whatever came of that. */
export async function lookIntoStore<T>(run: JobRun, look: (transport: Transport) => Promise<T>): Promise<T> {
  const directory = join(run.directory, "nats");
  const server = await startLocalServer({ binary: findNatsServer(), directory, job: run.job });
  try {
    const transport = await connectAs(run, "controller");
    try {
      return await look(transport);
    } finally {
      await transport.close();
    }
  } finally {
    await server.stop();
  }
}
