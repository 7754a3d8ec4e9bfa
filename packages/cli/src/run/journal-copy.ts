/** The journal of a run that is over: from a copy of its stream, so that nothing of the run is touched. */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JournalBytes, RunFolder } from "@muster/check";
import { connectNats, startLocalServer } from "@muster/transport";
import { findNatsServer } from "./broker.ts";

/** Its keys, by which the store knows its accounts. */
const keys = join("nats", "server.json");

/** Where a journal is, or why it can not be had. */
export type JournalPlace = { readonly stream: string } | { readonly missing: string };

/** Finds the stream of the journal, relative to the folder of the run. */
export function findJournal({ path, config, isRunning }: RunFolder): JournalPlace {
  if (isRunning) return { missing: "the run goes on, and its broker writes it; check the run again when it is over" };
  if (isBrokerLeft(join(path, "nats")))
    return { missing: "the broker of the run still runs; go on with the run and let it end, or end that process" };
  if (!existsSync(join(path, keys))) return { missing: "it is kept by a broker that is not of this run" };
  const accounts = join("nats", "store", "jetstream");
  const streams = existsSync(join(path, accounts))
    ? readdirSync(join(path, accounts)).map((account) =>
        join(accounts, account, "streams", `muster-${config.job}-journal`),
      )
    : [];
  const stream = streams.find((folder) => existsSync(join(path, folder)));
  return stream === undefined ? { missing: "the store of its broker is gone" } : { stream };
}

/** Reads the records of a journal, by a broker of its own over a copy. */
export async function* readJournalCopy(
  { path, config: { job } }: RunFolder,
  stream: string,
  env: Readonly<Record<string, string | undefined>>,
): AsyncGenerator<JournalBytes, undefined> {
  const binary = findNatsServer(env);
  const copy = mkdtempSync(join(tmpdir(), "muster-check-"));
  try {
    for (const name of [keys, stream]) cpSync(join(path, name), join(copy, name), { recursive: true });
    const server = await startLocalServer({ binary, directory: join(copy, "nats"), job, port: 0 });
    try {
      const credentials = server.credentials.controller;
      if (!credentials) return;
      const connection = { url: server.url, job, credentials, name: "controller.check.0", connectTimeoutMs: 10_000 };
      const transport = await connectNats(connection);
      try {
        yield* transport.journal().read(1);
      } finally {
        await transport.close();
      }
    } finally {
      await server.stop();
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

/** A broker that outlived its run still writes to its store. */
function isBrokerLeft(directory: string): boolean {
  const pid = existsSync(join(directory, "server.pid"))
    ? readFileSync(join(directory, "server.pid"), "utf8").trim()
    : "";
  const commandLine = join("/proc", pid, "cmdline");
  return /^\d+$/.test(pid) && existsSync(commandLine) && readFileSync(commandLine, "utf8").includes("nats-server");
}
