/** Fetches the buffers of a package: from memory on one host, over TCP otherwise; verified before anybody sees them. */
import { once } from "node:events";
import { constants, open, readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import type { MetricsCollector } from "../metrics/collector.ts";
import type { Manifest } from "./manifest.ts";
import { sha256Of } from "./package-server.ts";

/** How a package is fetched. */
export interface PullOptions {
  readonly metrics: MetricsCollector;
  /** Ends the pull, also at its deadline. */
  readonly signal: AbortSignal;
  /** Where the source is reached; default what it announces. */
  readonly address?: string | undefined;
}

const attempts = 3;
/** By now there can be a pipe under this number, and opening that would wait. */
const unblocked = constants.O_RDONLY | constants.O_NONBLOCK;

/** All buffers of a manifest, each equal to its digest. @throws MUSTER_ERR_PEER_GONE; then nothing is given out. */
export async function pull(manifest: Manifest, options: PullOptions): Promise<readonly Uint8Array[]> {
  const startedMs = performance.now();
  const buffers = (await mapped(manifest)) ?? (await fetched(manifest, options));
  const bytes = buffers.reduce((sum, { byteLength }) => sum + byteLength, 0);
  options.metrics.recordRecv(bytes, (performance.now() - startedMs) / 1_000);
  return buffers;
}

/** Tells the source that everything arrived. @returns Whether it heard. */
export async function sayHeld(manifest: Manifest, nodeId: string, options: PullOptions): Promise<boolean> {
  try {
    const reader = await dial(options.address ?? manifest.address, options.signal);
    try {
      await reader.ask(manifest, { held: nodeId });
    } finally {
      reader.close();
    }
    return true;
  } catch {
    // It counts this process among the late ones; what is held here is held.
    options.metrics.recordError("confirm");
    return false;
  }
}

/** Copies of the source's memory; null when it is not on this host, is gone, or has other bytes there. */
async function mapped({ memory, buffers }: Manifest): Promise<readonly Uint8Array[] | null> {
  if (memory === null) return null;
  try {
    if ((await readFile("/proc/sys/kernel/random/boot_id", "latin1")).trim() !== memory.boot_id) return null;
    const file = await open(`/proc/${Number(memory.pid)}/fd/${Number(memory.fd)}`, unblocked);
    try {
      const found: Uint8Array[] = [];
      for (const [i, { bytes, digest }] of buffers.entries()) {
        const into = new Uint8Array(bytes);
        const { bytesRead } = await file.read(into, 0, bytes, memory.offsets[i] ?? 0);
        if (bytesRead !== bytes || sha256Of(into) !== digest) return null;
        found.push(into);
      }
      return found;
    } finally {
      await file.close();
    }
  } catch {
    // Another user's process, another namespace, or gone: TCP decides.
    return null;
  }
}

async function fetched(manifest: Manifest, options: PullOptions): Promise<readonly Uint8Array[]> {
  const address = options.address ?? manifest.address;
  const gone = (reason: string, cause?: unknown) => errors.PeerGone({ address, reason }, cause);
  const buffers = manifest.buffers.map(({ bytes }, i) => roomFor(bytes, (reason) => gone(`buffer ${i} ${reason}`)));
  const got = buffers.map(() => 0);
  for (let attempt = 0; ; attempt++) {
    try {
      await fetchAll(manifest, { buffers, got }, await dial(address, options.signal));
      break;
    } catch (error) {
      // What has arrived stays; the next try goes on behind it.
      if (attempt === attempts - 1 || options.signal.aborted) throw gone(messageOf(error), error);
      await sleep(50 * 2 ** attempt);
    }
  }
  const odd = buffers.findIndex((buffer, i) => sha256Of(buffer) !== manifest.buffers[i]?.digest);
  if (odd >= 0) throw gone(`buffer ${odd} of ${manifest.key} has another digest than announced`);
  return buffers;
}

function roomFor(bytes: number, gone: (reason: string) => Error): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch {
    throw gone(`is to have ${bytes} bytes, for which there is no memory here`);
  }
}

async function fetchAll(
  manifest: Manifest,
  { buffers, got }: { readonly buffers: readonly Uint8Array[]; readonly got: number[] },
  reader: Reader,
): Promise<void> {
  try {
    for (const [i, buffer] of buffers.entries()) {
      const offset = got[i] ?? 0;
      if (offset > 0 && offset === buffer.byteLength) continue;
      const { bytes } = await reader.ask(manifest, { buffer: i, offset });
      if (bytes !== buffer.byteLength - offset) throw new Error(`buffer ${i} has another size than announced`);
      await reader.fill(buffer, offset, (at) => {
        got[i] = at;
      });
    }
  } finally {
    reader.close();
  }
}

/** Reads lines and bytes of a connection in turn. */
class Reader {
  readonly #socket: Socket;
  readonly #parts: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#parts = socket[Symbol.asyncIterator]();
  }

  async ask(manifest: Manifest, question: object): Promise<{ readonly bytes?: number }> {
    this.#socket.write(`${JSON.stringify({ key: manifest.key, secret: manifest.secret, ...question })}\n`);
    while (!this.#rest.includes(10)) {
      if (this.#rest.length > 4_096) throw new Error("the answer has no end");
      this.#rest = Buffer.concat([this.#rest, await this.#next()]);
    }
    const end = this.#rest.indexOf(10);
    const answer = JSON.parse(this.#rest.toString("utf8", 0, end)) as { ok?: boolean; error?: string; bytes?: number };
    this.#rest = this.#rest.subarray(end + 1);
    if (answer.ok !== true) throw new Error(answer.error ?? "refused");
    return answer;
  }

  async fill(into: Uint8Array, from: number, reached: (at: number) => void): Promise<void> {
    for (let at = from; at < into.byteLength; reached(at)) {
      if (this.#rest.length === 0) this.#rest = await this.#next();
      const part = this.#rest.subarray(0, into.byteLength - at);
      into.set(part, at);
      this.#rest = this.#rest.subarray(part.length);
      at += part.length;
    }
  }

  close(): void {
    this.#socket.destroy();
  }

  async #next(): Promise<Buffer> {
    const { value, done } = await this.#parts.next();
    if (done) throw new Error("the connection ended");
    return value;
  }
}

async function dial(address: string, signal: AbortSignal): Promise<Reader> {
  const [, host = "", port = ""] = /^\[?([^\]]*)\]?:(\d+)$/.exec(address) ?? [];
  const socket = connect({ host, port: Number(port), noDelay: true, signal });
  socket.setTimeout(10_000, () => socket.destroy(new Error("silent for 10 s")));
  await once(socket, "connect", { signal });
  return new Reader(socket);
}
