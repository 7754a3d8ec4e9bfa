/** SHA-256 of pieces of files. Those in shared memory have a thread of their own, so that nothing else waits for the 2 to 3 ms that each takes. */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { errors } from "../errors.ts";

/** What is smaller is hashed before a thread would have heard of it. */
export const threadBytesMin = 1024 * 1024;

/** One thread for all files of a process, from the first large piece on. */
let shared: HashThread | null = null;

/** SHA-256 of a piece, which must not change until then. @throws MUSTER_ERR_CHECKPOINT_HASH_THREAD when the thread ended before it answered. */
export function hashPiece(piece: Uint8Array): Uint8Array | Promise<Uint8Array> {
  const isShared = piece.buffer instanceof SharedArrayBuffer;
  if (!isShared || piece.length < threadBytesMin) return createHash("sha256").update(piece).digest();
  if (!shared || shared.isOver) shared = new HashThread(threadFile());
  return shared.hash(piece);
}

interface Waiting {
  resolve(digest: Uint8Array): void;
  reject(error: Error): void;
}

/** A thread that hashes one piece after the other. It keeps the process alive only while somebody waits for it. */
export class HashThread {
  readonly #worker: Worker;
  /** The oldest first. */
  readonly #waiting: Waiting[] = [];
  #cause: unknown;
  #isOver = false;

  constructor(file: URL) {
    // No inherited flags: the thread is plain JavaScript even when the process runs from sources.
    this.#worker = new Worker(file, { execArgv: [], name: "hashes of checkpoints" });
    this.#worker.unref();
    this.#worker.on("message", (digest: Uint8Array) => {
      this.#waiting.shift()?.resolve(digest);
      if (this.#waiting.length === 0) this.#worker.unref();
    });
    this.#worker.once("error", (error) => {
      this.#cause = error;
    });
    this.#worker.once("exit", (code) => this.#end(code));
  }

  /** It answers no more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends a piece. */
  hash(piece: Uint8Array): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage(piece);
    });
  }

  #end(code: number): void {
    this.#isOver = true;
    const reason = this.#cause instanceof Error ? this.#cause.message : `exit code ${code}`;
    for (const { reject } of this.#waiting.splice(0)) reject(errors.CheckpointHashThread({ reason }, this.#cause));
  }
}

/** The compiled thread: beside this file when compiled, in `dist` when this file runs from source. */
function threadFile(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const file = new URL(fromSource ? "../../dist/hash/thread.js" : "./thread.js", import.meta.url);
  if (!existsSync(file))
    throw errors.CheckpointHashThread({
      reason: `there is no ${fileURLToPath(file)}; build the project first (pnpm build)`,
    });
  return file;
}
