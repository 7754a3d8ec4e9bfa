/**
 * The coordinator's journal in a folder: a snapshot, then one line for each input that changed something. A line is its CRC-32, a space
 * and JSON. What was cut off in the middle of the last line is dropped; a fault anywhere else is refused.
 */

import { createHash } from "node:crypto";
import { mkdirSync, statSync } from "node:fs";
import { type FileHandle, open, readFile, realpath, rename } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { dirname, join, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { folderMaker, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { type PlainTopology, plainOf, stateOf } from "../topology/plain-topology.ts";
import { emptyTopology, type Topology, type TopologyRules } from "../topology/state.ts";
import { type Input, step } from "../topology/step.ts";

const makeFolderSync = folderMaker({ mkdirSync, statSync, dirname });

/** Keeps what was decided. `flush` resolves when everything appended before is kept. */
export interface Journal {
  append(input: Input, now: number): void;
  flush(): Promise<void>;
  /** Begins anew with the present state; what was appended before is in it. */
  compact(state: Topology): Promise<void>;
  /** Whether there is so much since the last snapshot that it should begin anew. */
  readonly isLong: boolean;
  close(): Promise<void>;
}

/** Keeps nothing: the state ends with the process. */
export function memoryJournal(): Journal {
  return { append() {}, flush: async () => {}, compact: async () => {}, isLong: false, close: async () => {} };
}

const version = 1;
const fileName = "journal.jsonl";
/** Records and bytes after which it begins anew; it is read into one string, which holds 512 MiB. */
const recordsMax = 20_000;
const bytesMax = 64 * 2 ** 20;

/** What a folder held, and the journal that goes on in it. */
export interface OpenedJournal {
  readonly state: Topology;
  readonly journal: Journal;
}

/**
 * Opens the journal of a folder, which is made when it is not there.
 *
 * @throws MUSTER_ERR_GATEWAY_STATE_BUSY while another gateway has it, MUSTER_ERR_GATEWAY_STATE when it can not be read or written.
 */
export async function openFileJournal(directory: string, rules: TopologyRules): Promise<OpenedJournal> {
  const path = join(resolve(directory), fileName);
  try {
    makeFolderSync(directory);
  } catch (error) {
    throw errors.GatewayState({ path, reason: messageOf(error) }, error);
  }
  const guard = await guardOf(await realpath(directory));
  try {
    return { state: replay(await textOf(path), { path, rules }), journal: new FileJournal(path, guard) };
  } catch (error) {
    guard.close();
    throw error;
  }
}

/** Lines wait here until the disk has them; all that wait are written at once. */
class FileJournal implements Journal {
  readonly #path: string;
  readonly #guard: Server;
  #file: FileHandle | null = null;
  /** Lines that wait; those of before a snapshot are never written behind it. */
  #batch: { readonly lines: string[] } = { lines: [] };
  #bytes = 0;
  #records = 0;
  #written: Promise<void> = Promise.resolve();
  #failure: Error | null = null;

  constructor(path: string, guard: Server) {
    this.#path = path;
    this.#guard = guard;
  }

  get isLong(): boolean {
    return this.#records >= recordsMax || this.#bytes >= bytesMax;
  }

  append(input: Input, now: number): void {
    const line = lineOf({ now, input });
    this.#batch.lines.push(line);
    this.#bytes += line.length;
    this.#records++;
  }

  flush(): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    const batch = this.#batch;
    if (batch.lines.length > 0) this.#enqueue(() => this.#write(batch));
    return this.#written;
  }

  compact(state: Topology): Promise<void> {
    const snapshot = lineOf({ version, snapshot: plainOf(state) });
    // Lines that somebody waits for are written before; the snapshot has them too, so nobody else needs them.
    this.#batch = { lines: [] };
    this.#bytes = 0;
    this.#records = 0;
    this.#enqueue(() => this.#replace(snapshot));
    return this.#written;
  }

  async close(): Promise<void> {
    try {
      if (this.#failure === null) await this.flush();
    } finally {
      await this.#file?.close();
      await new Promise((done) => this.#guard.close(done));
    }
  }

  #enqueue(work: () => Promise<void>): void {
    this.#written = this.#written.then(work).catch((error: unknown) => {
      this.#failure ??= errors.GatewayState({ path: this.#path, reason: messageOf(error) }, error);
      throw this.#failure;
    });
    // Whoever flushes hears of it; nobody else has to.
    this.#written.catch(() => {});
  }

  async #write(batch: { readonly lines: string[] }): Promise<void> {
    const lines = batch.lines.splice(0);
    if (lines.length === 0) return;
    this.#file ??= await open(this.#path, "a", 0o600);
    await this.#file.appendFile(lines.join(""));
    await this.#file.datasync();
  }

  /** A new file beside the old one takes its place once the disk has it. */
  async #replace(snapshot: string): Promise<void> {
    await this.#file?.close();
    this.#file = null;
    const beside = `${this.#path}.new`;
    const file = await open(beside, "w", 0o600);
    try {
      await file.writeFile(snapshot);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, this.#path);
    const folder = await open(join(this.#path, ".."), "r");
    await folder.sync().finally(() => folder.close());
    this.#file = await open(this.#path, "a", 0o600);
  }
}

function lineOf(value: unknown): string {
  const json = JSON.stringify(value);
  return `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`;
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw errors.GatewayState({ path, reason: messageOf(error) }, error);
  }
}

type Line =
  | { readonly version: number; readonly snapshot: PlainTopology }
  | { readonly now: number; readonly input: Input };

/** The fold of a journal. */
function replay(text: string, { path, rules }: { readonly path: string; readonly rules: TopologyRules }): Topology {
  let state = emptyTopology;
  const lines = text.split("\n");
  // Whatever stands behind the last line break was being written when the process died.
  lines.pop();
  lines.forEach((line, index) => {
    const json = line.slice(9);
    if (crc32(json).toString(16).padStart(8, "0") !== line.slice(0, 8))
      throw errors.GatewayState({
        path,
        reason: `line ${index + 1} is damaged; restore the file, or begin with an empty folder`,
      });
    const record = JSON.parse(json) as Line;
    if ("snapshot" in record) {
      if (record.version !== version)
        throw errors.GatewayState({
          path,
          reason: `it has version ${record.version} and this program reads ${version}`,
        });
      state = stateOf(record.snapshot);
      return;
    }
    const outcome = step(state, record.input, { now: record.now, rules });
    if ("state" in outcome) state = outcome.state;
  });
  return state;
}

/** An abstract socket named after the folder, by its path without links: the kernel gives it to one process, and takes it back when that dies. */
async function guardOf(directory: string): Promise<Server> {
  const name = createHash("sha256").update(resolve(directory)).digest("hex").slice(0, 32);
  const guard = createServer((socket) => socket.destroy());
  await new Promise<void>((done, fail) => {
    guard.once("error", (error: NodeJS.ErrnoException) =>
      fail(
        error.code === "EADDRINUSE"
          ? errors.GatewayStateBusy({ directory }, error)
          : errors.GatewayState({ path: directory, reason: messageOf(error) }, error),
      ),
    );
    guard.listen({ path: `\0muster-gateway-${name}` }, done);
  });
  guard.unref();
  return guard;
}
