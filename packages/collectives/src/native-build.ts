/**
 * Whether the addon was built from the sources beside it. An addon of another build would misread what it is given, and jobs would hang
 * where this says what to do.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { errors } from "./errors.ts";

/** @param native Folder of the addon's package; without sources nothing is compared. @throws MUSTER_ERR_NATIVE_STALE */
export function checkBuild(built: string | undefined, native: string): void {
  const folder = join(native, "src/binding");
  if (!existsSync(folder)) return;
  const sources = bindingHashOf(folder);
  if (built !== sources) throw errors.NativeStale({ built: built ?? "before builds had a name", sources });
}

/** Names the sources of the binding; `native/CMakeLists.txt` does the same when it builds the addon. */
export function bindingHashOf(folder: string): string {
  const lines = readdirSync(folder)
    .filter((name) => /\.(cc|h)$/.test(name))
    .sort()
    .map((name) => `${name} ${sha256(readFileSync(join(folder, name)))}\n`);
  return sha256(lines.join("")).slice(0, 16);
}

function sha256(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
