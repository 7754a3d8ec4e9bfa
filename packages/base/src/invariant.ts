import { defineErrors } from "./errors.ts";

const errors = defineErrors("MUSTER_ERR", {
  InvariantBroken: { message: "broken invariant: {what}" },
});

/**
 * Stops when a condition that must always hold does not. Kept on in production: better to stop than to go on wrong.
 *
 * @throws MUSTER_ERR_INVARIANT_BROKEN
 */
export function invariant(condition: unknown, what: string): asserts condition {
  if (!condition) throw errors.InvariantBroken({ what });
}
