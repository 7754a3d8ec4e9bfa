/** What a failed write is called in the words of checkpoints. */
import { hasCode, messageOf } from "@muster/base";
import { type CheckpointContent, contentInvalid, type PlannedFile } from "./content.ts";
import { errors } from "./errors.ts";
import { systemCode } from "./files.ts";
import { formatName } from "./names.ts";
import type { Place } from "./write.ts";

/** Codes of a disk, or of a share of it, without room. */
const fullCodes: readonly string[] = ["ENOSPC", "EDQUOT"];

/** Errors that say already what is to be said. */
const plainCodes = ["NAMES_TAKEN", "SHARDS_MISSING", "CONTENT_INVALID"].map((word) => `MUSTER_ERR_CHECKPOINT_${word}`);

/** Makes the error of a write that failed. @param leftover - What is left of it, in words. */
export async function writeFault(
  { fs, root }: Place,
  {
    content,
    neededBytes,
    signal,
  }: { readonly content: CheckpointContent; readonly neededBytes: number; readonly signal: AbortSignal },
  leftover: string,
  error: unknown,
): Promise<unknown> {
  const name = formatName({ ...content, attempt: 1 });
  if (hasCode(error, "MUSTER_ERR_CHECKPOINT_MANIFEST_INVALID"))
    return contentInvalid(content, "manifest", String(error.params.reason), error);
  if (signal.aborted) return errors.CheckpointAborted({ name, leftover }, error);
  if (plainCodes.some((code) => hasCode(error, code))) return error;
  if (fullCodes.includes(systemCode(error))) {
    const freeBytes = await fs.freeBytes(root).catch(() => 0);
    return errors.CheckpointDiskFull({ name, folder: root, freeBytes, neededBytes, leftover }, error);
  }
  return errors.CheckpointWriteFailed({ name, reason: messageOf(error), leftover }, error);
}

/** Size of planned files together. */
export function bytesOf(plans: readonly PlannedFile<string>[]): number {
  return plans.reduce((sum, { parts }) => parts.reduce((bytes, part) => bytes + part.length, sum), 0);
}
