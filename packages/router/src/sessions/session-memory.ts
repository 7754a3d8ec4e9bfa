/** Sessions in memory, for episodes that are begun anew when their process dies. Whoever began one removes it. */
import { sessionEnded } from "../core/reply.ts";
import { emptySession, type Session, type SessionRecord, withRecord } from "../core/session.ts";
import { notFound, type SessionStore, sessionFull } from "./session-store.ts";

/** The sessions of one process. */
export class SessionMemory implements SessionStore {
  readonly #bytesMax: number;
  readonly #ended: (id: string) => void;
  readonly #sessions = new Map<string, { session: Session; bytes: number }>();

  /** `ended` hears of each session that ends. */
  constructor(bytesMax: number, ended: (id: string) => void) {
    this.#bytesMax = bytesMax;
    this.#ended = ended;
  }

  async read(id: string): Promise<Session> {
    return this.#at(id).session;
  }

  async begin(id: string, record: SessionRecord): Promise<void> {
    if (!this.#sessions.has(id)) this.#sessions.set(id, { session: withRecord(emptySession, record), bytes: 0 });
  }

  async append(id: string, record: SessionRecord): Promise<Session> {
    const kept = this.#at(id);
    const { ended } = kept.session;
    if (ended !== null && record.kind === "end") return kept.session;
    if (ended !== null) throw sessionEnded(ended);
    const bytes = kept.bytes + JSON.stringify(record).length;
    if (bytes > this.#bytesMax && record.kind !== "end") throw sessionFull(this.#bytesMax);
    kept.bytes = bytes;
    kept.session = withRecord(kept.session, record);
    if (record.kind === "end") this.#ended(id);
    return kept.session;
  }

  async remove(id: string): Promise<void> {
    this.#sessions.delete(id);
  }

  #at(id: string): { session: Session; bytes: number } {
    const kept = this.#sessions.get(id);
    if (!kept) throw notFound(id);
    return kept;
  }
}
