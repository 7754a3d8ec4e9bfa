/**
 * Sessions in a folder, one file each. A line is the CRC-32 of a record, a space and its JSON; it is on disk before anybody is told. What was cut off in the
 * middle of the last line is dropped; a fault anywhere else is refused.
 */
import { createHash } from "node:crypto";
import { mkdirSync, statSync } from "node:fs";
import { open, readdir, readFile, realpath, rm, truncate } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { folderMaker, messageOf, Places } from "@muster/base";
import { Refused, sessionEnded } from "../core/reply.ts";
import { emptySession, type Session, type SessionRecord, withRecord } from "../core/session.ts";
import { errors } from "../errors.ts";
import { notFound, type SessionLimits, type SessionStore, sessionFull } from "./session-store.ts";

const makeFolderSync = folderMaker({ mkdirSync, statSync, dirname });

/** A session that is read, and goes on. */
interface Opened {
  session: Session;
  bytes: number;
  /** Its end is written, or about to be: nothing comes behind it. */
  isEnded: boolean;
  /** Its file is gone, or about to be. */
  isRemoved: boolean;
  /** The write before the next one. */
  written: Promise<void>;
}

/** A session in memory. */
interface Kept {
  readonly opening: Promise<Opened>;
  /** Set once it is read. */
  opened: Opened | null;
  /** Who reads or writes it now. One that is in use stays: two copies of a session would know different turns. */
  users: number;
}

/** Sessions that are kept in memory, and how many full ones their bytes may make up; others are read again when they are asked for. */
const [openedMax, fullMax] = [256, 8];
/** Files that are read at the same time: what is being read is not counted yet. */
const loadsMax = 4;
const ending = ".jsonl";

/** The sessions of one folder. */
export class SessionFiles implements SessionStore {
  readonly #directory: string;
  readonly #limits: SessionLimits;
  readonly #guard: Server;
  readonly #ids: Set<string>;
  /** Sessions whose first record is on its way to the disk. */
  readonly #beginning = new Map<string, Promise<void>>();
  /** Least recently used first. */
  readonly #kept = new Map<string, Kept>();
  readonly #loads = new Places(loadsMax);
  #isClosed = false;

  private constructor(directory: string, limits: SessionLimits, guard: Server, ids: Set<string>) {
    this.#directory = directory;
    this.#limits = limits;
    this.#guard = guard;
    this.#ids = ids;
  }

  /** Opens a folder, which is made when it is not there. @throws MUSTER_ERR_ROUTER_SESSIONS while another router has it, or when it can not be used. */
  static async open(directory: string, limits: SessionLimits): Promise<SessionFiles> {
    try {
      makeFolderSync(directory);
      const path = await realpath(directory);
      const guard = await guardOf(path);
      const names = await readdir(path);
      const ids = names.filter((name) => name.endsWith(ending)).map((name) => name.slice(0, -ending.length));
      return new SessionFiles(path, limits, guard, new Set(ids));
    } catch (error) {
      throw errors.RouterSessions({ directory, reason: messageOf(error) }, error);
    }
  }

  /** The session; all that is in it is on disk. @throws Refused with 404 */
  async read(id: string): Promise<Session> {
    const session = await this.#use(id, async (opened) => opened.session);
    // Its first record is not on disk, or was cut off.
    if (session === emptySession) throw notFound(id);
    return session;
  }

  /**
   * Begins a session with its first record; one that has begun stays as it is. Resolves when the disk has it.
   *
   * @throws Refused with 503 when the folder has as many as it may.
   */
  begin(id: string, record: SessionRecord): Promise<void> {
    const begun = this.#beginning.get(id) ?? this.#begin(id, record).finally(() => this.#beginning.delete(id));
    this.#beginning.set(id, begun);
    return begun;
  }

  async #begin(id: string, record: SessionRecord): Promise<void> {
    const isNew = !this.#ids.has(id);
    if (isNew && this.#ids.size >= this.#limits.sessionsMax)
      throw new Refused({
        ...{ status: 503, code: "pool_full", retryAfter: 60 },
        message: `there are ${this.#ids.size} sessions, as many as the router keeps; remove some with DELETE /sessions/ID`,
      });
    this.#ids.add(id);
    try {
      if ((await this.#use(id, async (opened) => opened.session)) === emptySession) await this.append(id, record);
    } catch (error) {
      if (isNew) this.#ids.delete(id);
      throw error;
    }
  }

  /**
   * Writes a record. Resolves with the session when the disk has it. An end is written once, however many ask for it, and also behind a full session.
   *
   * @throws Refused with 409 when the session has ended or is full.
   */
  append(id: string, record: SessionRecord): Promise<Session> {
    return this.#use(id, async (opened, kept) => {
      if (opened.isRemoved) throw notFound(id);
      if (this.#isClosed)
        throw new Refused({ status: 503, code: "draining", message: "the router is about to end", retryAfter: 1 });
      const isEnd = record.kind === "end";
      if (opened.isEnded && !isEnd) throw sessionEnded(opened.session.ended ?? "asked");
      if (opened.isEnded) {
        await opened.written;
        return opened.session;
      }
      const json = JSON.stringify(record);
      const line = Buffer.from(`${crc32(json).toString(16).padStart(8, "0")} ${json}\n`);
      if (!isEnd && opened.bytes + line.length > this.#limits.bytesMax) throw sessionFull(this.#limits.bytesMax);
      opened.bytes += line.length;
      opened.isEnded = isEnd;
      const write = opened.written.then(() => this.#write(id, line, opened));
      opened.written = write;
      try {
        await write;
      } catch (error) {
        // What the file has now is not known: it is read again.
        this.#forget(id, kept);
        throw error;
      }
      opened.session = withRecord(opened.session, record);
      return opened.session;
    });
  }

  remove(id: string): Promise<void> {
    return this.#use(id, async (opened, kept) => {
      opened.isRemoved = true;
      await opened.written.catch(() => {});
      try {
        await rm(this.#pathOf(id), { force: true });
        this.#ids.delete(id);
      } finally {
        this.#forget(id, kept);
      }
    });
  }

  /** Gives the folder back, once what is being written is on disk. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await Promise.allSettled([...this.#kept.values()].map(({ opening }) => opening));
    await Promise.allSettled(opened.map((one) => (one.status === "fulfilled" ? one.value.written : null)));
    await new Promise((done) => this.#guard.close(done));
  }

  #pathOf(id: string): string {
    return join(this.#directory, `${id}${ending}`);
  }

  /** Works on a session, which stays in memory meanwhile. @throws Refused with 404; what `work` throws */
  async #use<T>(id: string, work: (opened: Opened, kept: Kept) => Promise<T>): Promise<T> {
    if (!this.#ids.has(id)) throw notFound(id);
    const kept = this.#kept.get(id) ?? { opening: this.#loads.use(() => this.#load(id)), opened: null, users: 0 };
    this.#kept.delete(id);
    this.#kept.set(id, kept);
    kept.users += 1;
    try {
      kept.opened = await kept.opening;
      return await work(kept.opened, kept);
    } finally {
      kept.users -= 1;
      if (kept.opened === null) this.#forget(id, kept);
      this.#forgetOldest();
    }
  }

  #forget(id: string, kept: Kept): void {
    if (this.#kept.get(id) === kept) this.#kept.delete(id);
  }

  #forgetOldest(): void {
    const bytesOf = ({ opened }: Kept): number => opened?.bytes ?? 0;
    let { size } = this.#kept;
    let bytes = [...this.#kept.values()].reduce((sum, kept) => sum + bytesOf(kept), 0);
    for (const [id, kept] of this.#kept) {
      if (size <= openedMax && (size === 1 || bytes <= fullMax * this.#limits.bytesMax)) return;
      if (kept.users > 0) continue;
      this.#kept.delete(id);
      size -= 1;
      bytes -= bytesOf(kept);
    }
  }

  async #load(id: string): Promise<Opened> {
    const path = this.#pathOf(id);
    const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return Buffer.alloc(0);
      throw error;
    });
    const whole = bytes.lastIndexOf(10) + 1;
    // The next line must not be written behind half of one.
    if (whole < bytes.length) await truncate(path, whole);
    // A process that died may not have waited for the disk.
    if (whole > 0) for (const written of [path, this.#directory]) await onDisk(written);
    const lines = bytes.subarray(0, whole).toString("utf8").split("\n").slice(0, -1);
    const session = lines.reduce<Session>((before, line, index) => {
      const json = line.slice(9);
      if (crc32(json).toString(16).padStart(8, "0") !== line.slice(0, 8))
        throw errors.RouterSessions({ directory: path, reason: `line ${index + 1} is damaged; restore or remove it` });
      return withRecord(before, JSON.parse(json) as SessionRecord);
    }, emptySession);
    return { session, bytes: whole, isEnded: session.ended !== null, isRemoved: false, written: Promise.resolve() };
  }

  async #write(id: string, line: Buffer, opened: Opened): Promise<void> {
    const file = await open(this.#pathOf(id), "a", 0o600);
    try {
      await file.appendFile(line);
      await file.datasync();
    } finally {
      await file.close();
    }
    if (opened.session === emptySession) await onDisk(this.#directory);
  }
}

/** Resolves when what was written to a file or folder is on the disk. */
async function onDisk(path: string): Promise<void> {
  const file = await open(path, "r");
  await file.sync().finally(() => file.close());
}

/** An abstract socket named after the folder: the kernel gives it to one process, and takes it back when that dies. */
async function guardOf(path: string): Promise<Server> {
  const name = createHash("sha256").update(path).digest("hex").slice(0, 32);
  const guard = createServer((socket) => socket.destroy());
  await new Promise<void>((done, fail) => {
    guard.once("error", (error: NodeJS.ErrnoException) =>
      fail(error.code === "EADDRINUSE" ? new Error("another router uses it") : error),
    );
    guard.listen({ path: `\0muster-sessions-${name}` }, done);
  });
  guard.unref();
  return guard;
}
