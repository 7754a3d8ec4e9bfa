/** The key by which members of a job's data plane know each other: 256 random bits in the job's folder, mode 0600. */
import { randomBytes } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { errors } from "../errors.ts";

const keyBytes = 32;

/** Reads the key, or makes it at first asking. @throws MUSTER_ERR_RUN_FILE when what lies there is no key. */
export function dataKeyOf(directory: string): Uint8Array {
  const path = join(directory, "data.key");
  if (!statSync(path, { throwIfNoEntry: false }))
    writeFileSync(path, randomBytes(keyBytes), { mode: 0o600, flag: "wx" });
  const key = readFileSync(path);
  if (key.length !== keyBytes)
    throw errors.RunFile({ path, reason: `it has ${key.length} bytes, a key has ${keyBytes}` });
  return Uint8Array.from(key);
}
