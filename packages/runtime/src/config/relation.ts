/** What two values must be to each other. */
import type { JobConfig } from "@muster/protocol";

/** A rule about two keys. */
export interface Relation {
  readonly keys: readonly [string, string];
  readonly holds: (config: JobConfig) => boolean;
  /** The rule with `{0}` and `{1}` for the two keys. */
  readonly rule: string | ((config: JobConfig) => string);
  readonly fix: string | ((config: JobConfig) => string);
}
