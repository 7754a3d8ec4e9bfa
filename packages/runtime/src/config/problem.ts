/** One fault of a configuration, with everything its reader needs to mend it. */
export interface Problem {
  /** The key or keys it is about; empty for faults of the whole file. */
  readonly keys: readonly string[];
  /** A whole sentence: where, key, value, fault; fix. */
  readonly text: string;
}

/** A value for people: text quoted, the rest as it is. */
export function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
