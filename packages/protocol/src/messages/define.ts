import type { z } from "zod";
import type { Role } from "../ids.ts";

/** Which way a message goes, hence which subject carries it. */
export type Direction = "command" | "report" | "event" | "heartbeat" | "probe" | "groups" | "journal";

/** One row of the message table. */
export interface MessageDefinition<S extends z.ZodType = z.ZodType> {
  readonly direction: Direction;
  /** Who may say it: from any other role it is refused, whatever the broker let through. */
  readonly from: readonly [Role, ...Role[]];
  /** Who says it to whom, and what it means: one sentence for the reference. */
  readonly says: string;
  /** It may be as large as a message can be; without it a report is refused above 64 KiB. What only the controller says has no bound of its own. */
  readonly isLarge?: true;
  readonly body: S;
}

/** Types one family of messages: kind → definition. */
export function defineMessages<const M extends Record<string, MessageDefinition>>(messages: M): M {
  return messages;
}
