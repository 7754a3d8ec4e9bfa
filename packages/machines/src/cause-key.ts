/** Root causes of what was given up, by what makes them one. */
import type { CauseCount } from "@muster/protocol";

/** What makes two causes one: class and top frame; the message stands in for a frame that is not known. Pure. */
export function causeKeyOf({ name, frame, message }: Pick<CauseCount, "name" | "frame" | "message">): string {
  return `${name} ${frame ?? message}`;
}
