/** The broker of a run, for who reads its journal and its groups: the one that runs, or one over a copy of its store. */

import { join } from "node:path";
import { openRunFolder, type RunFolder } from "@muster/check/files";
import type { Transport } from "@muster/transport";
import { connectNats } from "@muster/transport";
import { credentialsOf, findConnection } from "../composition/connection.ts";
import { errors } from "../errors.ts";
import type { FoundRun } from "../job/find-run.ts";
import { findJournal, isBrokerLeft, openStoreCopy } from "../run/journal-copy.ts";

/** A run with its store open. */
export interface RunStore {
  readonly folder: RunFolder;
  readonly transport: Transport;
  close(): Promise<void>;
}

const connectTimeoutMs = 10_000;

/** Opens the store of a run, which goes on, is over, or was killed. @throws MUSTER_ERR_RUN_FOLDER_INVALID, MUSTER_ERR_RUN_FILE, MUSTER_ERR_BROKER_UNREACHABLE */
export async function openRunStore(
  { job, directory }: FoundRun,
  env: Readonly<Record<string, string | undefined>>,
): Promise<RunStore> {
  const folder = openRunFolder(directory);
  if (folder.isRunning || isBrokerLeft(join(directory, "nats"))) {
    const connection = findConnection({ runs: join(directory, ".."), job }, ["controller"]);
    const credentials = credentialsOf(connection, "controller");
    const name = `controller.trajectories.${process.pid}`;
    const transport = await connectNats({ url: connection.url, job, credentials, name, connectTimeoutMs });
    return { folder, transport, close: () => transport.close() };
  }
  const place = findJournal(folder);
  if ("missing" in place) throw errors.RunFile({ path: join(directory, "nats"), reason: place.missing });
  const streams = [place.stream, place.stream.replace(/-journal$/, "-groups")];
  return { folder, ...(await openStoreCopy(folder, streams, env)) };
}
