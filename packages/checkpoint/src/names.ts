/**
 * Names inside a checkpoint root. They are the only part of a path that may come from outside, so each is matched by a strict
 * pattern before it meets the disk; everything else in the folder is ignored.
 */
import { type CheckpointName, formatCheckpointName, parseCheckpointName } from "@muster/protocol";
import { errors } from "./errors.ts";

export { type CheckpointName, formatCheckpointName as formatName, parseCheckpointName as parseName };

/** Most attempts at one name, so that no loop over names is without end. */
export const attemptsMax = 99;

/** Most steps that the eight digits of a name hold. */
export const stepMax = 99_999_999;

/** Most that a version or a term of a name can be. */
export const counterMax = 9_999_999_999;

/** The file that names the newest checkpoint, for people and tools outside. */
export const latestFile = "latest";

const leftover = /^\.(?:tmp|trash|set|seal)-[a-z0-9-]{1,80}$/;

const setName = /^\.(?:set|seal)-l(\d{1,16})-step-(\d{8})-v\d{1,10}-[0-9a-f]{16}(?:-\d{1,2})?$/;

/** Names of the folder in which several actors write one checkpoint: while shards are written, and while its n-th sealer has it. */
export function setNames(
  { lineage, step, version }: Pick<CheckpointName, "step" | "version"> & { readonly lineage: number },
  key: string,
) {
  const rest = `l${lineage}-step-${`${step}`.padStart(8, "0")}-v${version}-${key}`;
  return { open: `.set-${rest}`, sealing: (nth: number) => `.seal-${rest}-${nth}` };
}

/** The lineage and step of such a folder; `null` for any other name. */
export function parseSet(text: string): { readonly lineage: number; readonly step: number } | null {
  const found = setName.exec(text);
  return found && { lineage: Number(found[1]), step: Number(found[2]) };
}

/** Checks a name from outside. @throws MUSTER_ERR_CHECKPOINT_NAME_INVALID */
export function checkName(text: string): CheckpointName {
  const name = parseCheckpointName(text);
  if (name === null) throw errors.CheckpointNameInvalid({ name: JSON.stringify(text.slice(0, 64)).slice(1, -1) });
  return name;
}

/** True for what an interrupted save or removal leaves behind. */
export function isLeftover(text: string): boolean {
  return leftover.test(text);
}
