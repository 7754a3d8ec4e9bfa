/** The broker of a running job, as one of its users sees it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JobRun } from "@muster/testkit";
import { type BrokerRole, brokerRoles, type Credentials, connectNats, type Transport } from "@muster/transport";

/** How a job's broker is reached. */
export interface JobBroker {
  readonly url: string;
  readonly credentials: Readonly<Record<BrokerRole, Credentials>>;
}

/** Reads what the run wrote for those who join. */
export function brokerOf(run: Pick<JobRun, "directory">): JobBroker {
  const files = brokerRoles.map((role) => read(join(run.directory, "credentials", `${role}.json`)));
  const credentials: JobBroker["credentials"] = Object.assign({}, ...files.map((file) => file.credentials));
  return { url: read(join(run.directory, "connection.json")).url, credentials };
}

function read(path: string): JobBroker {
  return JSON.parse(readFileSync(path, "utf8")) as JobBroker;
}

/** Connects as a process of a role; close it after the test. */
export function connectAs(run: Pick<JobRun, "directory" | "job">, role: BrokerRole, id = "test"): Promise<Transport> {
  const { url, credentials } = brokerOf(run);
  const name = `${role}.${id}.t1`;
  return connectNats({ url, job: run.job, name, credentials: credentials[role], connectTimeoutMs: 5_000 });
}
