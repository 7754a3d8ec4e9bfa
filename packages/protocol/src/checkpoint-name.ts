/** Names of the folders of checkpoints: what is reported durable, and later restored, is known by them. */

/** What the name of a checkpoint says. */
export interface CheckpointName {
  readonly step: number;
  readonly version: number;
  readonly term: number;
  /** 1, or more when the plain name was already taken by a damaged checkpoint, another lineage or another writer. */
  readonly attempt: number;
}

const pattern = /^step-(\d{8})-v(\d{1,10})-t(\d{1,10})(?:-a(\d{1,2}))?$/;

/** Writes a name: `step-00000120-v120-t3`, with `-a2` for a second attempt. */
export function formatCheckpointName(name: CheckpointName): string {
  const plain = `step-${String(name.step).padStart(8, "0")}-v${name.version}-t${name.term}`;
  return name.attempt === 1 ? plain : `${plain}-a${name.attempt}`;
}

/** Reads a name. @returns `null` when it is not exactly what {@link formatCheckpointName} would write. */
export function parseCheckpointName(text: string): CheckpointName | null {
  const match = pattern.exec(text);
  if (!match) return null;
  const [step, version, term, attempt] = match.slice(1).map((part) => Number(part ?? 1)) as [
    number,
    number,
    number,
    number,
  ];
  const name = { step, version, term, attempt };
  return formatCheckpointName(name) === text ? name : null;
}
