/** The journal of a run that is over: from a copy of its stream, so that nothing of the run is touched. */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JournalBytes } from "@muster/check";
import type { RunFolder } from "@muster/check/files";
import { connectNats, startLocalServer, type Transport } from "@muster/transport";
import { errors } from "../errors.ts";
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
  folder: RunFolder,
  stream: string,
  env: Readonly<Record<string, string | undefined>>,
): AsyncGenerator<JournalBytes, undefined> {
  const copy = await openStoreCopy(folder, [stream], env);
  try {
    yield* copy.transport.journal().read(1);
  } finally {
    await copy.close();
  }
}

/** A broker over a copy of some of a run's streams, and a controller's connection to it. */
export interface StoreCopy {
  readonly transport: Transport;
  close(): Promise<void>;
}

/** Opens a copy of the streams, relative to the folder of the run; one that is not there is left out. */
export async function openStoreCopy(
  { path, config: { job } }: Pick<RunFolder, "path" | "config">,
  streams: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<StoreCopy> {
  const binary = findNatsServer(env);
  const copy = mkdtempSync(join(tmpdir(), "muster-check-"));
  const remove = (): void => rmSync(copy, { recursive: true, force: true });
  try {
    for (const name of [keys, ...streams])
      if (existsSync(join(path, name))) cpSync(join(path, name), join(copy, name), { recursive: true });
    const server = await startLocalServer({ binary, directory: join(copy, "nats"), job, port: 0 });
    try {
      const credentials = server.credentials.controller;
      if (!credentials) throw errors.CredentialsMissing({ role: "controller", path });
      const connection = { url: server.url, job, credentials, name: "controller.check.0", connectTimeoutMs: 10_000 };
      const transport = await connectNats(connection);
      const close = async (): Promise<void> => {
        await transport.close();
        await server.stop();
        remove();
      };
      return { transport, close };
    } catch (error) {
      await server.stop();
      throw error;
    }
  } catch (error) {
    remove();
    throw error;
  }
}

/** A broker that outlived its run still writes to its store. */
export function isBrokerLeft(directory: string): boolean {
  const pid = existsSync(join(directory, "server.pid"))
    ? readFileSync(join(directory, "server.pid"), "utf8").trim()
    : "";
  const commandLine = join("/proc", pid, "cmdline");
  return /^\d+$/.test(pid) && existsSync(commandLine) && readFileSync(commandLine, "utf8").includes("nats-server");
}
