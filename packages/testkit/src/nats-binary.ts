/** Finds the nats-server program for tests. Never downloads one: `pnpm setup` does. */
import { accessSync, constants } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const repositoryRoot = join(dirname(fileURLToPath(import.meta.url)), "../../..");

/**
 * Path of nats-server: `MUSTER_NATS_SERVER`, else `.muster/bin` of the repository, else `PATH`.
 *
 * @throws Error telling how to get one.
 */
export function findNatsServer(environment: NodeJS.ProcessEnv = process.env): string {
  const chosen = environment.MUSTER_NATS_SERVER;
  if (chosen) return chosen;
  const folders = [join(repositoryRoot, ".muster/bin"), ...(environment.PATH ?? "").split(delimiter)];
  const found = folders.map((folder) => join(folder, "nats-server")).find(isExecutable);
  if (found) return found;
  throw new Error("no nats-server found; run `pnpm run setup`, or set MUSTER_NATS_SERVER to the path of one");
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
