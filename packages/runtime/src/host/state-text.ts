/** Reads what the log says of a snapshot without knowing its machine. */

/** The state of an XState snapshot (`value`), or `undefined` for machines that have none. */
export function stateValueOf(snapshot: unknown): unknown {
  return typeof snapshot === "object" && snapshot !== null && "value" in snapshot ? snapshot.value : undefined;
}

/** True when an XState machine has reached its final state. */
export function isFinal(snapshot: unknown): boolean {
  return typeof snapshot === "object" && snapshot !== null && "status" in snapshot && snapshot.status === "done";
}

/** A state value for people: `ready`, `life.beating|work.ready.idle`. */
export function stateText(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  return Object.entries(value)
    .map(([name, inner]) => `${name}.${stateText(inner)}`)
    .join("|");
}
