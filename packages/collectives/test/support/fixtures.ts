/** What the tests of this package share: a folder, a key, bytes, rank worlds in one process, and a proxy that breaks. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomOf } from "@muster/base";
import { type GradientMesh, openGradientMesh, type SectionInfo, type VersionId } from "../../src/index.ts";

export const key = new Uint8Array(32).fill(7);
export const job = "job-under-test";
export const never = new AbortController().signal;

/** A folder for sockets; `remove` when done. */
export function socketFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), "muster-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Bytes that differ by seed in every block. */
export function bytesOf(sizeBytes: number, seed: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(sizeBytes / 4));
  for (let i = 0; i < words.length; i++) words[i] = Math.imul(i ^ (seed * 0x9e3779b9), 0x85ebca6b);
  return new Uint8Array(words.buffer, 0, sizeBytes);
}

/** What a caller of pullVersion gives, with a fresh target. */
export function pullOf(id: VersionId, sections: readonly SectionInfo[], holders: readonly string[]) {
  const into = Object.fromEntries(sections.map(({ name, bytes }) => [name, new Uint8Array(bytes)]));
  return { key, job, member: "reader", holders, id, sections, into, deadlineMs: 20_000, signal: never };
}

/** Options of one rank; members are `member-0`, `member-1`, …. */
export function meshOf(socketDir: string, rank: number, worldSize: number, epoch = 1) {
  const members = Array.from({ length: worldSize }, (_, r) => `member-${r}`);
  return {
    key,
    job,
    epoch,
    rank,
    members,
    socketDir,
    shards: 8,
    shardElements: 1003,
    deadlineMs: 20_000,
    signal: never,
  };
}

/** All ranks of a mesh in this process. */
export function openWorld(socketDir: string, worldSize: number, epoch = 1): Promise<GradientMesh[]> {
  return Promise.all(
    Array.from({ length: worldSize }, (_, rank) => openGradientMesh(meshOf(socketDir, rank, worldSize, epoch))),
  );
}

/** Fills the shards dealt to this rank with values that depend on op and shard alone. @returns Their indices. */
export function fillShards(mesh: GradientMesh, op: number): number[] {
  const written = [0, 1, 2, 3, 4, 5, 6, 7].filter((shard) => shard % mesh.worldSize === mesh.rank);
  for (const shard of written) {
    const random = randomOf(op, shard);
    const view = mesh.shard(shard);
    for (let i = 0; i < view.length; i++) view[i] = (random.next() - 0.5) * 10 ** random.below(7);
  }
  return written;
}

/** Number of open file descriptors of this process. */
export function openFds(): number {
  return readdirSync("/proc/self/fd").length;
}

/** Waits for a condition. @throws Error naming `what` after 10 s. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const giveUpAtMs = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > giveUpAtMs) throw new Error(`waited 10 s for ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A TCP relay in front of a holder; once `limitBytes` have come back through it, `onLimit` decides what happens. */
export async function relay(
  target: string,
  limitBytes: number,
  onLimit: (reader: Socket, holder: Socket) => void,
): Promise<{ address: string; relayedBytes: () => number; close: () => void }> {
  const [, host, port] = target.split(":");
  let relayedBytes = 0;
  const sockets = new Set<Socket>();
  const server = createServer((reader) => {
    const holder = connectTcp(Number(port), host);
    for (const socket of [reader, holder]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
    }
    reader.pipe(holder);
    holder.on("end", () => reader.end());
    holder.on("data", (chunk: Buffer) => {
      relayedBytes += chunk.length;
      if (relayedBytes >= limitBytes) onLimit(reader, holder);
      else reader.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const bound = server.address();
  if (bound === null || typeof bound === "string") throw new Error("the relay has no port");
  const close = (): void => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { address: `tcp:127.0.0.1:${bound.port}`, relayedBytes: () => relayedBytes, close };
}
