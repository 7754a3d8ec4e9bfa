/**
 * Reads the journal of a real run as it grows, because the controller removes what its snapshots cover, and gives it to the simulator's
 * checkers: terms and sequences, the ledger at every record, votes before commits, one digest per version, nobody back from the dead,
 * snapshots that are what the records before them come to.
 */
import { join } from "node:path";
import { type JournalAudit, JournalAuditor } from "@muster/check/internal";
import type { JobConfig } from "@muster/protocol";
import { connectNats, startLocalServer, type Transport } from "@muster/transport";
import { brokerPortOf, userOf } from "./follow.ts";

/** Which run to audit. */
export interface AuditOptions {
  readonly directory: string;
  readonly config: JobConfig;
  readonly binary: string;
}

/** An audit that reads along. */
export interface RunningAudit {
  /** Reads what is left of the journal, once the run and its broker have ended, and judges. */
  finish(): Promise<JournalAudit>;
  close(): Promise<void>;
}

/** Begins to audit the run in `directory`, whose broker runs. */
export async function startAudit(options: AuditOptions): Promise<RunningAudit> {
  const { directory, config } = options;
  const auditor = new JournalAuditor(config);
  const transport = await connect(options, `nats://127.0.0.1:${brokerPortOf(directory) ?? 0}`);
  const { close } = await transport.tail({
    stream: "journal",
    fromSeq: 1,
    handle: ({ seq, data }) => auditor.take(seq, data),
  });
  const end = async (): Promise<void> => {
    await close();
    await transport.close();
  };
  return {
    async finish() {
      await end();
      await readRest(options, auditor);
      return auditor.audit();
    },
    close: end,
  };
}

async function readRest(options: AuditOptions, auditor: JournalAuditor): Promise<void> {
  const { directory, config, binary } = options;
  const server = await startLocalServer({ binary, directory: join(directory, "nats"), job: config.job });
  try {
    const transport = await connect(options, server.url);
    try {
      for await (const { seq, data } of transport.journal().read(auditor.nextSeq)) auditor.take(seq, data);
    } finally {
      await transport.close();
    }
  } finally {
    await server.stop();
  }
}

async function connect({ directory, config: { job } }: AuditOptions, url: string): Promise<Transport> {
  const credentials = userOf(directory, "controller");
  if (!credentials) throw new Error(`${directory} has no user of the controller`);
  return await connectNats({ url, job, credentials, name: "controller.audit.0", connectTimeoutMs: 10_000 });
}
