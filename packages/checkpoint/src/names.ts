/**
 * Names inside a checkpoint root. They are the only part of a path that may come from outside, so each is matched by a strict
 * pattern before it meets the disk; everything else in the folder is ignored.
 */
import { errors } from "./errors.ts";

/** What the name of a checkpoint says. */
export interface CheckpointName {
  readonly step: number;
  readonly version: number;
  readonly term: number;
  /** 1, or more when the plain name was already taken by a damaged checkpoint, another lineage or another writer. */
  readonly attempt: number;
}

/** Most attempts at one name, so that no loop over names is without end. */
export const attemptsMax = 99;

/** Most steps that the eight digits of a name hold. */
export const stepMax = 99_999_999;

/** Most that a version or a term of a name can be. */
export const counterMax = 9_999_999_999;

/** The file that names the newest checkpoint, for people and tools outside. */
export const latestFile = "latest";

const pattern = /^step-(\d{8})-v(\d{1,10})-t(\d{1,10})(?:-a(\d{1,2}))?$/;
const leftover = /^\.(?:tmp|trash)-[a-z0-9-]{1,80}$/;

/** Writes a name: `step-00000120-v120-t3`, with `-a2` for a second attempt. */
export function formatName(name: CheckpointName): string {
  const plain = `step-${String(name.step).padStart(8, "0")}-v${name.version}-t${name.term}`;
  return name.attempt === 1 ? plain : `${plain}-a${name.attempt}`;
}

/** Reads a name. @returns `null` when it is not exactly what {@link formatName} would write. */
export function parseName(text: string): CheckpointName | null {
  const match = pattern.exec(text);
  if (!match) return null;
  const [step, version, term, attempt] = match.slice(1).map((part) => Number(part ?? 1)) as [
    number,
    number,
    number,
    number,
  ];
  const name = { step, version, term, attempt };
  return formatName(name) === text ? name : null;
}

/** Checks a name from outside. @throws MUSTER_ERR_CHECKPOINT_NAME_INVALID */
export function checkName(text: string): CheckpointName {
  const name = parseName(text);
  if (name === null) throw errors.CheckpointNameInvalid({ name: JSON.stringify(text.slice(0, 64)).slice(1, -1) });
  return name;
}

/** True for what an interrupted save or removal leaves behind. */
export function isLeftover(text: string): boolean {
  return leftover.test(text);
}
