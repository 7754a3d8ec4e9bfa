/** What the routes of sessions keep them in: a folder, or memory. */
import { Refused } from "../core/reply.ts";
import type { Session, SessionRecord } from "../core/session.ts";

/** Bounds of a store. */
export interface SessionLimits {
  /** Sessions in the store. */
  readonly sessionsMax: number;
  /** Bytes of one session. */
  readonly bytesMax: number;
}

/** Sessions by their id. */
export interface SessionStore {
  /** The session as it is kept. @throws Refused with 404 */
  read(id: string): Promise<Session>;
  /** Begins a session with its first record; one that has begun stays as it is. @throws Refused with 503 in a full store. */
  begin(id: string, record: SessionRecord): Promise<void>;
  /** Writes a record. Resolves with the session once it is kept. @throws Refused with 409 when the session has ended or is full. */
  append(id: string, record: SessionRecord): Promise<Session>;
  remove(id: string): Promise<void>;
}

/** @returns What to throw for an id that no session has. */
export function notFound(id: string): Refused {
  const message = `there is no session ${id.slice(0, 64)}; POST /sessions begins one`;
  return new Refused({ status: 404, code: "not_found", message });
}

/** @returns What to throw for a record that a session has no room for. */
export function sessionFull(bytesMax: number): Refused {
  return new Refused({
    ...{ status: 409, code: "session_full" },
    message: `the session would have more than ${bytesMax} bytes; end it and begin another one`,
  });
}
