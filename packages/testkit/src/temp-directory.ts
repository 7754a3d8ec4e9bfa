import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of a test's own. */
export interface TempDirectory {
  readonly path: string;
  /** Removes it with everything in it. */
  remove(): Promise<void>;
}

/** Makes an empty folder below the system's temporary one. */
export async function makeTempDirectory(): Promise<TempDirectory> {
  const path = await mkdtemp(join(tmpdir(), "muster-test-"));
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 3 }) };
}
