/** What a process gives away: packages of buffers, and the server that serves them. One line of JSON asks, one answers, then bytes. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { isSameSecret } from "@muster/http";
import type { MetricsCollector } from "../metrics/collector.ts";
import type { FusedBuffer } from "./tensors.ts";

/** Buffers under a key, and who said that it holds them. */
export class Package {
  readonly secret = randomBytes(32).toString("hex");
  readonly held = new Set<string>();
  readonly buffers: readonly FusedBuffer[];

  constructor(buffers: readonly FusedBuffer[]) {
    this.buffers = buffers;
  }
}

/** `sha256:` and 64 hexadecimal digits. In parts, for a hash takes less than 2 GiB at once. */
export function sha256Of(bytes: Uint8Array): string {
  const hash = createHash("sha256");
  for (let at = 0; at < bytes.byteLength; at += hashedMax) hash.update(bytes.subarray(at, at + hashedMax));
  return `sha256:${hash.digest("hex")}`;
}

const lineMax = 65_536;
const idleMs = 60_000;
const chunk = 2 ** 20;
const connectionsMax = 1_024;
const hashedMax = 2 ** 30;

/** Serves packages over TCP to whoever knows their secrets. */
export class PackageServer {
  readonly #packages = new Map<string, Package>();
  readonly #metrics: MetricsCollector;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  constructor(metrics: MetricsCollector) {
    this.#metrics = metrics;
    this.#server = createServer((socket) => this.#serve(socket));
    this.#server.maxConnections = connectionsMax;
  }

  /** Begins to listen. @returns The port. */
  async open(host: string, port: number): Promise<number> {
    this.#server.listen(port, host);
    await once(this.#server, "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  /** Makes a package known, in the place of one that was there. */
  add(key: string, made: Package): void {
    this.#packages.set(key, made);
    this.#count();
  }

  /** Serves a key no more. */
  remove(key: string): void {
    this.#packages.delete(key);
    this.#count();
  }

  /** Ends every transfer. */
  async close(): Promise<void> {
    this.#packages.clear();
    this.#count();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((done) => this.#server.close(done));
  }

  #count(): void {
    const all = [...this.#packages.values()].flatMap(({ buffers }) => buffers);
    this.#metrics.memoryBufferUsageBytes.set(all.reduce((sum, { buffer }) => sum + buffer.byteLength, 0));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    this.#metrics.activeConnections.inc();
    socket.setNoDelay(true).setTimeout(idleMs, () => socket.destroy());
    socket.once("close", () => {
      this.#sockets.delete(socket);
      this.#metrics.activeConnections.dec();
    });
    socket.on("error", () => this.#metrics.recordError("peer"));
    void this.#answerLines(socket).catch(() => socket.destroy());
  }

  async #answerLines(socket: Socket): Promise<void> {
    let rest = "";
    for await (const part of socket) {
      rest += (part as Buffer).toString("latin1");
      let end = rest.indexOf("\n");
      for (; end >= 0; end = rest.indexOf("\n")) {
        const line = Buffer.from(rest.slice(0, end), "latin1").toString("utf8");
        const goesOn = await this.#answer(socket, line);
        if (!goesOn) return void socket.end();
        rest = rest.slice(end + 1);
      }
      if (rest.length > lineMax) return void socket.destroy();
    }
  }

  async #answer(socket: Socket, line: string): Promise<boolean> {
    const asked = JSON.parse(line) as Record<string, unknown>;
    const found = this.#packages.get(String(asked.key));
    if (found === undefined || !isSameSecret(String(asked.secret), found.secret)) {
      socket.write('{"ok": false, "error": "key: there is no such package"}\n');
      return false;
    }
    if ("held" in asked) {
      found.held.add(String(asked.held).slice(0, 256));
      return socket.write('{"ok": true}\n') || true;
    }
    const { buffer: index, offset = 0 } = asked;
    const whole = found.buffers[Number(index)]?.buffer;
    if (whole === undefined || !Number.isInteger(offset) || Number(offset) < 0 || Number(offset) > whole.byteLength) {
      socket.write('{"ok": false, "error": "buffer, offset: out of range"}\n');
      return false;
    }
    await this.#send(socket, whole.subarray(Number(offset)));
    return true;
  }

  async #send(socket: Socket, bytes: Uint8Array): Promise<void> {
    const startedMs = performance.now();
    socket.write(`${JSON.stringify({ ok: true, bytes: bytes.byteLength })}\n`);
    for (let at = 0; at < bytes.byteLength && !socket.destroyed; at += chunk)
      if (!socket.write(bytes.subarray(at, at + chunk))) await writable(socket);
    if (socket.destroyed) return;
    this.#metrics.recordSend(bytes.byteLength, (performance.now() - startedMs) / 1_000);
  }
}

/** Waits until a socket takes more, or is closed; leaves no listener behind. */
function writable(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off("drain", done).off("close", done);
      resolve();
    };
    socket.on("drain", done).on("close", done);
  });
}
