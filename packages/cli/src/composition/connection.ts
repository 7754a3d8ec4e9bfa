/**
 * How a process of a job finds its broker: `connection.json` in the job's folder says where it is, and `credentials/<role>.json` beside it
 * who may connect: a file per role, readable by its owner only. Each of those is a connection file of its own, to be given to another host.
 */
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { checkId } from "@muster/protocol";
import { makeOwnFolderSync } from "@muster/runtime";
import { brokerRoles, type Credentials, credentialsOfReplica, type ServerCredentials } from "@muster/transport";
import { z } from "zod";
import { errors } from "../errors.ts";
import { pasted } from "./pasted.ts";
import { newestName } from "./runs.ts";

const credentialsSchema = z.strictObject({
  user: z.string().min(1),
  account: z.string().regex(/^A[A-Z2-7]{55}$/, "is not the key of an account"),
  seed: z.string().regex(/^S[AU][A-Z2-7]{56}$/, "is not the seed of a key"),
  replica: z.strictObject({ id: z.string().min(1), token: z.string().min(1) }).optional(),
});

const connectionSchema = z.strictObject({
  job: z.string(),
  url: z.string().min(1),
  credentials: z.record(z.string(), credentialsSchema).optional(),
  engines: z.strictObject({ policy: z.string().min(1), rollout: z.string().min(1) }).optional(),
});

/** The users of a job's broker, and `system`, who is told of ended connections. */
export const connectionRoles = [...brokerRoles, "system"] as const;

/** Broker address and users of a job. */
export interface JobConnection {
  readonly job: string;
  readonly url: string;
  /** By role, as far as they were asked for and are there. */
  readonly credentials: Readonly<Record<string, Credentials>>;
  /** File or folder in which credentials were looked for. */
  readonly source: string;
  /** Engine of each role, by name or absolute path: a replica registers with the build of its engine. Embedded when absent. */
  readonly engines?: { readonly policy: string; readonly rollout: string };
}

/** Where a command finds its job. */
export interface JobLocation {
  /** Folder that holds one folder per job. */
  readonly runs: string;
  /** Name of the job; the newest one when absent or {@link newestName}. */
  readonly job?: string;
  /** Overrides the address in the file. */
  readonly nats?: string;
  /** Another connection file, e.g. one that `muster credentials` wrote on another host. */
  readonly connection?: string;
}

/** Writes how to reach a job, and a file per role, mode 0600. Files of users that there are no more go. */
export function writeConnection(
  directory: string,
  connection: Omit<JobConnection, "credentials" | "source"> & { readonly credentials: ServerCredentials },
): void {
  const { credentials, ...where } = connection;
  makeOwnFolderSync(directory);
  const folder = join(directory, credentialsFolder);
  rmSync(folder, { recursive: true, force: true });
  makeOwnFolderSync(folder);
  for (const [role, user] of Object.entries(credentials))
    writeSecretFile(join(folder, `${role}.json`), connectionText({ ...where, credentials: { [role]: user } }));
  writeSecretFile(join(directory, "connection.json"), connectionText(where));
}

/**
 * Writes a connection file for one process, with credentials that fit no other: what a node starts needs no more than that.
 *
 * @returns Its path; `null` when the credentials of the role are not there, which the process itself then says.
 */
export function writeOwnConnection(
  { directory, ...connection }: JobConnection & { readonly directory: string },
  role: string,
  id: string,
): string | null {
  const own = connection.credentials[role];
  if (!own) return null;
  const folder = join(directory, credentialsFolder);
  makeOwnFolderSync(folder);
  const path = join(folder, `${role}.${id}.json`);
  const credentials = { [role]: credentialsOfReplica(own, id) };
  writeSecretFile(path, connectionText({ ...connection, credentials }));
  return path;
}

/** The text of a connection file. */
export function connectionText(connection: Partial<JobConnection>): string {
  const { job, url, credentials, engines } = connection;
  return `${JSON.stringify({ job, url, credentials, engines }, null, 2)}\n`;
}

/**
 * Reads how to reach a job, with the credentials of `roles` and of nobody else. A connection file that is named says which job it is of.
 *
 * @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE, MUSTER_ERR_CONNECTION_OTHER, MUSTER_ERR_RUN_FILE, MUSTER_ERR_SECRET_OPEN
 */
export function findConnection(
  location: JobLocation,
  roles: readonly string[],
): JobConnection & { readonly directory: string } {
  const at = location.connection === undefined ? ofRun(location) : ofFile(location.connection, location);
  const { path, directory, missing } = at;
  const { credentials: inside, ...connection } = parseConnection(path, missing);
  const folder = join(directory, credentialsFolder);
  const found = inside ?? (location.connection === undefined ? readFolder(folder, roles) : {});
  const credentials = Object.fromEntries(Object.entries(found).filter(([role]) => roles.includes(role)));
  const source = inside || location.connection !== undefined ? path : folder;
  return { ...connection, credentials, source, url: location.nats ?? connection.url, directory };
}

/** Where a connection file is, the folder of its job, and what to say when there is no such file. */
interface Found {
  readonly path: string;
  readonly directory: string;
  readonly missing: () => Error;
}

function ofRun({ runs, job: name = newestName }: JobLocation): Found {
  const job = name === newestName ? newestJob(runs) : checkId("job", name);
  const directory = join(runs, job);
  const missing = (): Error => errors.JobUnknown({ job, directory: runs, start: pasted("run") });
  return { path: join(directory, "connection.json"), directory, missing };
}

function ofFile(path: string, { runs, job: named = newestName }: JobLocation): Found {
  const missing = (): Error => errors.RunFile({ path, reason: "it is not there" });
  const job = checkId("job", parseConnection(path, missing).job);
  if (named !== newestName && checkId("job", named) !== job) throw errors.ConnectionOther({ path, job, named });
  return { path, directory: join(runs, job), missing };
}

/** Credentials of a role. @throws MUSTER_ERR_CREDENTIALS_MISSING */
export function credentialsOf({ job, credentials, source }: JobConnection, role: string): Credentials {
  const own = credentials[role];
  if (!own) throw errors.CredentialsMissing({ role, path: source, give: pasted("credentials", role, "--job", job) });
  return own;
}

/** Reads users by role from a JSON file, or from a connection file; what is no key is refused. */
export function readCredentials(path: string): Readonly<Record<string, Credentials>> {
  const value = readJson(path);
  const isConnection = typeof value === "object" && value !== null && "url" in value;
  if (isConnection) return parseConnection(path, () => errors.RunFile({ path, reason: "is gone" })).credentials ?? {};
  const parsed = z.record(z.string(), credentialsSchema).safeParse(value);
  if (!parsed.success) throw errors.RunFile({ path, reason: flawOf(parsed.error) });
  checkSecret(path);
  return parsed.data as Readonly<Record<string, Credentials>>;
}

const credentialsFolder = "credentials";

function readFolder(folder: string, roles: readonly string[]): Record<string, Credentials> {
  const paths = roles.map((role) => join(folder, `${role}.json`));
  const files = paths.filter((path) => statSync(path, { throwIfNoEntry: false }));
  const missing = (): Error => errors.RunFile({ path: folder, reason: "is gone" });
  return Object.assign({}, ...files.map((path) => parseConnection(path, missing).credentials));
}

interface ConnectionFile {
  readonly job: string;
  readonly url: string;
  readonly credentials?: Readonly<Record<string, Credentials>>;
  readonly engines?: { readonly policy: string; readonly rollout: string };
}

function parseConnection(path: string, missing: () => Error): ConnectionFile {
  if (!statSync(path, { throwIfNoEntry: false })) throw missing();
  const parsed = connectionSchema.safeParse(readJson(path));
  if (!parsed.success) throw errors.RunFile({ path, reason: flawOf(parsed.error) });
  if (parsed.data.credentials) checkSecret(path);
  return parsed.data as ConnectionFile;
}

/** Who may read a file besides its owner: its group, as where a cluster hands files to a container. */
const openBits = 0o037;

function checkSecret(path: string): void {
  const mode = statSync(path).mode & 0o777;
  if ((mode & openBits) !== 0) throw errors.SecretOpen({ path, mode: mode.toString(8).padStart(4, "0") });
}

/** Writes a file that only its owner can read, all of it or nothing. */
export function writeSecretFile(path: string, text: string): void {
  const draft = `${path}.new`;
  rmSync(draft, { force: true });
  writeFileSync(draft, text, { mode: 0o600, flag: "wx" });
  renameSync(draft, path);
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
