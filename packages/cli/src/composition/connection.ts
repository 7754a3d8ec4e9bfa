/** How a process of a job finds its broker: `connection.json` in the job's folder, readable by its owner only. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { checkId } from "@muster/protocol";
import { makeOwnFolderSync } from "@muster/runtime";
import type { Credentials, ServerCredentials } from "@muster/transport";
import { z } from "zod";
import { errors } from "../errors.ts";
import { pasted } from "./pasted.ts";
import { newestName } from "./runs.ts";

const credentialsSchema = z.strictObject({
  user: z.string().min(1),
  password: z.string().min(32, "must have at least 32 characters"),
  inboxPrefix: z.string().optional(),
});

const connectionSchema = z.strictObject({
  job: z.string(),
  url: z.string().min(1),
  credentials: z.record(z.string(), credentialsSchema),
});

/** Broker address and users of a job. */
export interface JobConnection {
  readonly job: string;
  readonly url: string;
  readonly credentials: Readonly<Record<string, Credentials>>;
}

/** Where a command finds its job. */
export interface JobLocation {
  /** Folder that holds one folder per job. */
  readonly runs: string;
  /** Name of the job; the newest one when absent or {@link newestName}. */
  readonly job?: string;
  /** Overrides the address in the file. */
  readonly nats?: string;
  /** Another connection file, e.g. one that was copied from another host. */
  readonly connection?: string;
}

/** Writes the connection file of a job, mode 0600. */
export function writeConnection(directory: string, job: string, url: string, credentials: ServerCredentials): void {
  makeOwnFolderSync(directory);
  const text = JSON.stringify({ job, url, credentials }, null, 2);
  writeFileSync(join(directory, "connection.json"), `${text}\n`, { mode: 0o600 });
}

/** Reads how to reach a job. @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE, MUSTER_ERR_RUN_FILE */
export function findConnection(location: JobLocation): JobConnection & { readonly directory: string } {
  const { job: name = newestName } = location;
  const job = name === newestName ? newestJob(location.runs) : checkId("job", name);
  const directory = join(location.runs, job);
  const path = location.connection ?? join(directory, "connection.json");
  const connection = parseConnection(path, () =>
    errors.JobUnknown({ job, directory: location.runs, start: pasted("run") }),
  );
  return { ...connection, url: location.nats ?? connection.url, directory };
}

/** Credentials of a role. @throws MUSTER_ERR_CREDENTIALS_MISSING */
export function credentialsOf(connection: JobConnection, role: string): Credentials {
  const credentials = connection.credentials[role];
  if (!credentials) throw errors.CredentialsMissing({ role, path: "connection.json" });
  return credentials;
}

/** Reads users by role from a JSON file; a missing or short password is refused. */
export function readCredentials(path: string): Readonly<Record<string, Credentials>> {
  const parsed = z.record(z.string(), credentialsSchema).safeParse(readJson(path));
  if (!parsed.success) throw errors.RunFile({ path, reason: flawOf(parsed.error) });
  return parsed.data as Readonly<Record<string, Credentials>>;
}

function parseConnection(path: string, missing: () => Error): JobConnection {
  if (!statSync(path, { throwIfNoEntry: false })) throw missing();
  const parsed = connectionSchema.safeParse(readJson(path));
  if (!parsed.success) throw errors.RunFile({ path, reason: flawOf(parsed.error) });
  return parsed.data as JobConnection;
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}

function flawOf(error: z.ZodError): string {
  const issue = error.issues[0];
  return `${issue?.path.join(".") ?? ""} ${issue?.message ?? "is invalid"}`;
}

/** Names of the jobs in a folder, newest first. */
export function jobsIn(runs: string): readonly string[] {
  if (!statSync(runs, { throwIfNoEntry: false })) return [];
  const jobs = readdirSync(runs, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const timeOf = (name: string): number =>
    statSync(join(runs, name, "connection.json"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return jobs
    .map(({ name }) => ({ name, time: timeOf(name) }))
    .filter(({ time }) => time > 0)
    .sort((a, b) => b.time - a.time)
    .map(({ name }) => name);
}

function newestJob(runs: string): string {
  const [newest] = jobsIn(runs);
  if (newest === undefined) throw errors.JobNone({ directory: runs, start: pasted("run") });
  return newest;
}
