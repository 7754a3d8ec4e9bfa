/**
 * A disk in memory that behaves as badly as a real one may: what was not synced can be lost in any part when it crashes, and any
 * call can fail. Files are inodes; a directory's changes are a list of operations that become durable, in any subset, at a crash.
 */
import type { Random } from "@muster/base";
import type { CheckpointFs, PathStat, ReadableFile, WritableFile } from "../src/files.ts";

interface FileNode {
  readonly kind: "file";
  readonly inode: number;
  data: Uint8Array;
  durable: Uint8Array;
  modifiedMs: number;
}

interface DirectoryNode {
  readonly kind: "directory";
  readonly inode: number;
  entries: Map<string, Node>;
  durable: Map<string, Node>;
  /** Changes since the last sync, oldest first. */
  pending: ((entries: Map<string, Node>) => void)[];
  modifiedMs: number;
}

type Node = FileNode | DirectoryNode;

/** What happens instead of, or right after, one call. */
export interface Fault {
  readonly atCall: number;
  readonly when: "before" | "after";
  readonly error: Error;
}

/** How much of the unsynced writes a crash leaves. */
export type Survival = "nothing" | "everything" | Random;

export class CrashError extends Error {}

export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code });
}

export class MemoryDisk {
  fault: Fault | null = null;
  calls: string[] = [];
  nowMs = 0;
  /** Paths of the files that are open. */
  readonly opened: string[] = [];
  /** Room for the bytes of all files. */
  bytesMax = Number.MAX_SAFE_INTEGER;
  private inodes = 0;
  private isDown = false;
  private root: DirectoryNode = this.directory();

  readonly fs: CheckpointFs = {
    prepareRoot: async (path) => path,
    makeDirectory: (path) => this.call(`makeDirectory ${path}`, () => this.add(path, this.directory())),
    create: (path) => this.call(`create ${path}`, () => this.createFile(path)),
    open: (path) => this.call(`open ${path}`, () => this.openFile(path)),
    stat: (path) => this.call(`stat ${path}`, () => this.statOf(this.find(path))),
    list: (path) => this.call(`list ${path}`, () => [...this.directoryAt(path).entries.keys()]),
    rename: (from, to) => this.call(`rename ${from} ${to}`, () => this.rename(from, to)),
    syncDirectory: (path) => this.call(`syncDirectory ${path}`, () => this.syncDirectory(path)),
    freeBytes: async () => Math.max(0, this.bytesMax - this.bytes()),
    removeFile: (path) => this.call(`removeFile ${path}`, () => this.remove(path)),
    removeDirectory: (path) => this.call(`removeDirectory ${path}`, () => this.remove(path)),
  };

  /** Files at this moment, by path. */
  files(): Map<string, Uint8Array> {
    const out = new Map<string, Uint8Array>();
    const walk = (node: Node, path: string): void => {
      if (node.kind === "file") out.set(path, node.data);
      else for (const [name, child] of node.entries) walk(child, `${path}/${name}`);
    };
    walk(this.root, "");
    return out;
  }

  /** Bytes of all files. */
  private bytes(): number {
    return [...this.files().values()].reduce((sum, { length }) => sum + length, 0);
  }

  /** Changes one bit of a file, as a bad medium does, with or without a new timestamp. */
  flipBit(path: string, bit: number): void {
    const node = this.find(path);
    if (node?.kind !== "file") throw new Error(`no file ${path}`);
    node.data = Uint8Array.from(node.data);
    node.data[bit >> 3]! ^= 1 << (bit & 7);
    node.modifiedMs++;
  }

  /** The disk after power came back. */
  afterCrash(survival: Survival): MemoryDisk {
    const disk = new MemoryDisk();
    const keeps = (): boolean => (typeof survival === "string" ? survival === "everything" : survival.next() < 0.5);
    const revive = (node: Node): Node => {
      if (node.kind === "file") {
        const file = disk.file();
        file.data = file.durable = surviving(node, survival);
        file.modifiedMs = node.modifiedMs;
        return file;
      }
      const entries = new Map(node.durable);
      for (const change of node.pending) if (keeps()) change(entries);
      const directory = disk.directory();
      directory.entries = new Map([...entries].map(([name, child]) => [name, revive(child)]));
      directory.durable = new Map(directory.entries);
      directory.modifiedMs = node.modifiedMs;
      return directory;
    };
    disk.root = revive(this.root) as DirectoryNode;
    disk.nowMs = this.nowMs;
    return disk;
  }

  private async call<T>(name: string, run: () => T): Promise<T> {
    if (this.isDown) throw new CrashError("the disk is down");
    this.calls.push(name);
    const fault = this.fault?.atCall === this.calls.length - 1 ? this.fault : null;
    if (fault?.error instanceof CrashError) this.isDown = true;
    if (fault?.when === "before") throw fault.error;
    const result = run();
    if (fault) throw fault.error;
    return result;
  }

  private file(): FileNode {
    const empty = new Uint8Array(0);
    return { kind: "file", inode: ++this.inodes, data: empty, durable: empty, modifiedMs: this.nowMs };
  }

  private directory(): DirectoryNode {
    const maps = { entries: new Map(), durable: new Map(), pending: [] };
    return { kind: "directory", inode: ++this.inodes, ...maps, modifiedMs: this.nowMs };
  }

  private find(path: string): Node | null {
    let node: Node | undefined = this.root;
    for (const part of path.split("/").filter(Boolean)) {
      node = node?.kind === "directory" ? node.entries.get(part) : undefined;
    }
    return node ?? null;
  }

  private directoryAt(path: string): DirectoryNode {
    const node = this.find(path);
    if (node?.kind !== "directory") throw systemError("ENOENT");
    return node;
  }

  private change(path: string, apply: (entries: Map<string, Node>, name: string) => void): void {
    const cut = path.lastIndexOf("/");
    const parent = this.directoryAt(path.slice(0, cut));
    const change = (entries: Map<string, Node>): void => apply(entries, path.slice(cut + 1));
    change(parent.entries);
    parent.pending.push(change);
    parent.modifiedMs = this.nowMs;
  }

  private add(path: string, node: Node): void {
    if (this.find(path)) throw systemError("EEXIST");
    this.change(path, (entries, name) => entries.set(name, node));
  }

  private createFile(path: string): WritableFile {
    const node = this.file();
    this.add(path, node);
    this.opened.push(path);
    return {
      write: (bytes, positionBytes) =>
        this.call(`write ${path}`, () => {
          const more = Math.max(0, positionBytes + bytes.length - node.data.length);
          if (this.bytes() + more > this.bytesMax) throw systemError("ENOSPC");
          const data = new Uint8Array(Math.max(node.data.length, positionBytes + bytes.length));
          data.set(node.data);
          data.set(bytes, positionBytes);
          node.data = data;
        }),
      sync: () =>
        this.call(`sync ${path}`, () => {
          node.durable = node.data;
        }),
      close: () => this.close(path),
    };
  }

  private openFile(path: string): ReadableFile {
    const node = this.find(path);
    if (node?.kind !== "file") throw systemError("ENOENT");
    this.opened.push(path);
    return {
      stat: this.statOf(node) as PathStat,
      read: (target, positionBytes) =>
        this.call(`read ${path}`, () => {
          const chunk = node.data.subarray(positionBytes, positionBytes + target.length);
          target.set(chunk);
          return chunk.length;
        }),
      close: () => this.close(path),
    };
  }

  /** A file is closed also where that fails. */
  private close(path: string): Promise<void> {
    const at = this.opened.indexOf(path);
    if (at >= 0) this.opened.splice(at, 1);
    return this.call(`close ${path}`, () => {});
  }

  private statOf(node: Node | null): PathStat | null {
    if (!node) return null;
    const sizeBytes = node.kind === "file" ? node.data.length : 0;
    const { kind, inode, modifiedMs } = node;
    return { kind, sizeBytes, links: 1, modifiedMs, signature: `${inode}:${sizeBytes}:${modifiedMs}` };
  }

  private rename(from: string, to: string): void {
    const node = this.find(from);
    if (!node) throw systemError("ENOENT");
    const target = this.find(to);
    if (target?.kind === "directory" && target.entries.size > 0) throw systemError("ENOTEMPTY");
    const oldName = from.slice(from.lastIndexOf("/") + 1);
    this.change(to, (entries, name) => {
      entries.delete(oldName);
      entries.set(name, node);
    });
  }

  private syncDirectory(path: string): void {
    const node = this.directoryAt(path);
    node.durable = new Map(node.entries);
    node.pending = [];
  }

  private remove(path: string): void {
    const node = this.find(path);
    if (!node) throw systemError("ENOENT");
    if (node.kind === "directory" && node.entries.size > 0) throw systemError("ENOTEMPTY");
    this.change(path, (entries, name) => entries.delete(name));
  }
}

/** Unsynced content after a crash: the synced state, all of it, a part of it, or zeros of the full length. */
function surviving(node: FileNode, survival: Survival): Uint8Array {
  if (survival === "everything") return node.data;
  if (survival === "nothing" || node.data === node.durable) return node.durable;
  const choice = survival.below(4);
  if (choice === 0) return node.durable;
  if (choice === 1) return node.data;
  return choice === 2 ? node.data.slice(0, survival.below(node.data.length + 1)) : new Uint8Array(node.data.length);
}
