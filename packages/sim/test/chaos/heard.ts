import type { HeardEvent } from "../../src/chaos/follow.ts";

/** An event with only the fields that are measured. */
export function heard(atMs: number, kind: HeardEvent["kind"], body: object): HeardEvent {
  return { kind, body, atMs } as unknown as HeardEvent;
}
