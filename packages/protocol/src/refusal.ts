/** Why what somebody said counts as never said, in one word: of events, metrics and logs. */
export const refusalReasons = [
  "malformed",
  "too_large",
  "other_version",
  "unknown_kind",
  "wrong_job",
  "spoofed",
  "wrong_role",
  "unexpected",
] as const;

/** One of the {@link refusalReasons}. */
export type RefusalReason = (typeof refusalReasons)[number];
