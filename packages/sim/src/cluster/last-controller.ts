/** After which end of a controller its supervisor starts no other one. */

/** True for the words of a controller whose journal has lost its end. */
export function isCut(how: string): boolean {
  return how.includes("the journal ends at record");
}

/** True when the job is over with this controller: it said so, or its journal can not be gone on from. */
export function isLast(
  { outcome, reason }: { readonly outcome: string; readonly reason: string },
  end: { readonly outcome: string } | null,
): boolean {
  return outcome === "done" || outcome === "stopped" || outcome === end?.outcome || isCut(reason);
}
