/** One line of `muster doctor`. */

/** What was found about one thing that Muster needs or can use. */
export interface Check {
  readonly name: string;
  /** `warn`: it works, but worse or not for long. `missing`: no job can run until it is mended. */
  readonly state: "ok" | "warn" | "missing";
  /** What was found. */
  readonly detail: string;
  /** How to mend it; `null` when there is nothing to mend. */
  readonly fix: string | null;
}

/** Something that is as it should be. */
export function ok(name: string, detail: string): Check {
  return { name, state: "ok", detail, fix: null };
}

/** Something that should be better. */
export function warn(name: string, detail: string, fix: string): Check {
  return { name, state: "warn", detail, fix };
}

/** Something without which no job runs. */
export function missing(name: string, detail: string, fix: string): Check {
  return { name, state: "missing", detail, fix };
}

/** True when `version` (`v1.2.3`, `1.2`) is at least `minimum`; false for text that is no version. */
export function isAtLeast(version: string, minimum: string): boolean {
  const have = version.replace(/^v/, "").split(".").map(Number.parseFloat);
  for (const [at, need] of minimum.split(".").map(Number).entries()) {
    const difference = (have[at] ?? 0) - need;
    if (difference !== 0) return difference > 0;
  }
  return true;
}
