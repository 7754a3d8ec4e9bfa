/** What every check of the sources reports: where, and what to do. */

/** One broken rule. */
export interface Finding {
  readonly file: string;
  /** First line, from 1; 0 when it is about the whole file. */
  readonly line: number;
  readonly message: string;
}

/** Findings as `file:line message`, so that a failed expectation reads as a list of places to mend. */
export function listOf(findings: readonly Finding[]): string[] {
  return findings.map(({ file, line, message }) => `${file}:${line} ${message}`);
}
