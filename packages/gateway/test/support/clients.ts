/** Clients of a coordinator that runs in the test, in real time. */
import { silentLogger } from "@muster/base";
import { type CheckpointClientOptions, CheckpointEngineClient, type Gateway, startGateway } from "../../src/index.ts";

/** What is to be closed after a test. */
export const open: (() => Promise<void>)[] = [];

const clock = {
  now: () => performance.now(),
  after(ms: number, run: () => void) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** A coordinator that takes a process for dead after 1.5 s of silence. */
export async function coordinator(port = 0): Promise<Gateway> {
  const gateway = await startGateway({ port, clock, logger: silentLogger, rules: { heartbeatTimeoutMs: 1_500 } });
  open.push(() => gateway.close());
  return gateway;
}

const quick = { heartbeatIntervalSeconds: 0.2, retryDelaySeconds: 0.05, timeoutSeconds: 20 };

/** A client that has started. */
export async function clientOf(coordinatorUrl: string, role: string, more: Partial<CheckpointClientOptions> = {}) {
  const client = new CheckpointEngineClient({ coordinatorUrl, role, ...quick, ...more });
  await client.start();
  open.push(() => client.stop());
  return client;
}

/** Closes everything, last first. */
export async function closeAll(): Promise<void> {
  for (const close of open.splice(0).reverse()) await close();
}
