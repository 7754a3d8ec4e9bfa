/**
 * A disk that all simulated processes share, as a network file system. What was not synced survives the end of a process and may be
 * lost, in any part, when the host loses power: bytes of files, and names in directories.
 */
import type { Random } from "@muster/base";
import type { CheckpointFs, PathStat, ReadableFile, WritableFile } from "@muster/checkpoint";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";

const operationMs = 0.5;

interface FileNode {
  readonly kind: "file";
  readonly id: number;
  data: Uint8Array;
  durable: Uint8Array;
  changes: number;
  modifiedMs: number;
}

interface DirectoryNode {
  readonly kind: "directory";
  readonly id: number;
  entries: Map<string, DiskNode>;
  durable: Map<string, DiskNode>;
  /** Changes since the last sync, oldest first. */
  pending: ((entries: Map<string, DiskNode>) => void)[];
  modifiedMs: number;
}

type DiskNode = FileNode | DirectoryNode;

/** What canary bugs do to the disk. */
export interface DiskBug {
  readonly skipsFileSync?: boolean;
  readonly skipsDirectorySync?: boolean;
  /** What goes to the trash is the newest folder beside the one that was meant. */
  readonly trashesNewest?: boolean;
}

/** One disk. */
export class SimDisk {
  readonly #failpoints: Failpoints;
  readonly #bug: DiskBug;
  readonly #nowMs: () => number;
  readonly #root: DirectoryNode;
  #nodes = 0;

  /** `nowMs`: the disk's own wall time, which stamps each change of content. */
  constructor(failpoints: Failpoints, bug: DiskBug = {}, nowMs: () => number = () => 0, root?: DirectoryNode) {
    this.#failpoints = failpoints;
    this.#bug = bug;
    this.#nowMs = nowMs;
    this.#root = root ?? this.#directory();
  }

  /** The disk as one process sees it: every call takes time and may fail. */
  fsOf(process: SimProcess): CheckpointFs {
    const call = async <T>(operation: string, path: string, run: () => T): Promise<T> => {
      const point = `${process.role}.fs-${operation}`;
      const action = this.#failpoints.hit(process, point);
      if (action?.type === "error") throw systemError("ENOSPC", path);
      if (action?.type === "drop") await new Promise<never>(() => {});
      await process.sleep(operationMs + (action?.delayMs ?? 0));
      return run();
    };
    return this.#operations(call);
  }

  /** The disk as checkers see it: at once, and without faults. */
  readonly fs: CheckpointFs = this.#operations(async (_, __, run) => run());

  /** The disk's own wall time. */
  get nowMs(): number {
    return this.#nowMs();
  }

  /** The disk as it would be if all that was not synced were lost now; this one goes on as it is. */
  durableCopy(): CheckpointFs {
    return new SimDisk(this.#failpoints, {}, this.#nowMs, durableOf(this.#root) as DirectoryNode).fs;
  }

  /** Power fails: of what was not synced, any part is lost. */
  losePower(random: Random): void {
    this.#revive(this.#root, random);
  }

  /** A bit of a file flips at rest: nothing was written, so no signature changes. */
  flipBit(path: string, random: Random): void {
    const file = this.#find(path);
    if (file?.kind !== "file" || file.data.length === 0) return;
    const data = file.data.slice();
    const at = random.below(data.length);
    data[at] = (data[at] ?? 0) ^ (1 << random.below(8));
    file.data = data;
    file.durable = data;
  }

  #operations(call: <T>(operation: string, path: string, run: () => T) => Promise<T>): CheckpointFs {
    return {
      prepareRoot: (path) => call("prepare", path, () => this.#makePath(path)),
      makeDirectory: (path) => call("mkdir", path, () => this.#add(path, this.#directory())),
      create: (path) => call("create", path, () => this.#create(path, call)),
      open: (path) => call("open", path, () => this.#open(path, call)),
      stat: (path) => call("stat", path, () => statOf(this.#find(path))),
      list: (path) => call("list", path, () => [...this.#directoryAt(path).entries.keys()]),
      rename: (from, to) => call("rename", from, () => this.#rename(from, to)),
      syncDirectory: (path) =>
        call("syncdir", path, () => (this.#bug.skipsDirectorySync ? undefined : settle(this.#directoryAt(path)))),
      // It has no size: what has no room is a failpoint.
      freeBytes: async () => 0,
      removeFile: (path) => call("remove", path, () => this.#remove(path)),
      removeDirectory: (path) => call("rmdir", path, () => this.#remove(path)),
    };
  }

  #create(path: string, call: <T>(operation: string, path: string, run: () => T) => Promise<T>): WritableFile {
    const file: FileNode = {
      kind: "file",
      id: ++this.#nodes,
      data: new Uint8Array(),
      durable: new Uint8Array(),
      changes: 0,
      modifiedMs: this.#nowMs(),
    };
    this.#add(path, file);
    return {
      write: (bytes, positionBytes) =>
        call("write", path, () => {
          const data = new Uint8Array(Math.max(file.data.length, positionBytes + bytes.length));
          data.set(file.data);
          data.set(bytes, positionBytes);
          file.data = data;
          file.changes += 1;
          file.modifiedMs = this.#nowMs();
        }),
      sync: () =>
        call("sync", path, () => {
          if (!this.#bug.skipsFileSync) file.durable = file.data;
        }),
      close: () => call("close", path, () => {}),
    };
  }

  #open(path: string, call: <T>(operation: string, path: string, run: () => T) => Promise<T>): ReadableFile {
    const file = this.#find(path);
    if (!file) throw systemError("ENOENT", path);
    if (file.kind !== "file") throw systemError("EISDIR", path);
    return {
      stat: statOf(file) as PathStat,
      read: (target, positionBytes) =>
        call("read", path, () => {
          const part = file.data.subarray(positionBytes, positionBytes + target.length);
          target.set(part);
          return part.length;
        }),
      close: () => call("close", path, () => {}),
    };
  }

  #find(path: string): DiskNode | null {
    let node: DiskNode | undefined = this.#root;
    for (const part of partsOf(path)) node = node?.kind === "directory" ? node.entries.get(part) : undefined;
    return node ?? null;
  }

  #directoryAt(path: string): DirectoryNode {
    const node = this.#find(path);
    if (node?.kind !== "directory") throw systemError("ENOENT", path);
    return node;
  }

  #makePath(path: string): string {
    let directory = this.#root;
    for (const part of partsOf(path)) {
      const known = directory.entries.get(part);
      const next: DirectoryNode = known?.kind === "directory" ? known : this.#directory();
      directory.entries.set(part, next);
      directory.durable.set(part, next);
      directory = next;
    }
    return path;
  }

  #add(path: string, node: DiskNode): void {
    const { parent, name } = this.#placeOf(path);
    if (parent.entries.has(name)) throw systemError("EEXIST", path);
    this.#change(parent, (entries) => entries.set(name, node));
  }

  #rename(given: string, to: string): void {
    const from = this.#bug.trashesNewest && to.includes("/.trash-") ? this.#newestBeside(given) : given;
    const source = this.#placeOf(from);
    const target = this.#placeOf(to);
    const node = source.parent.entries.get(source.name);
    if (!node) throw systemError("ENOENT", from);
    const old = target.parent.entries.get(target.name);
    if (old?.kind === "directory" && old.entries.size > 0) throw systemError("ENOTEMPTY", to);
    this.#change(source.parent, (entries) => {
      entries.delete(source.name);
      entries.set(target.name, node);
    });
  }

  #newestBeside(path: string): string {
    const { parent } = this.#placeOf(path);
    const folders = [...parent.entries].filter(([name, { kind }]) => kind === "directory" && !name.startsWith("."));
    const newest =
      folders
        .map(([name]) => name)
        .toSorted()
        .at(-1) ?? "";
    return `${path.slice(0, path.lastIndexOf("/"))}/${newest}`;
  }

  #remove(path: string): void {
    const { parent, name } = this.#placeOf(path);
    const node = parent.entries.get(name);
    if (!node) throw systemError("ENOENT", path);
    if (node.kind === "directory" && node.entries.size > 0) throw systemError("ENOTEMPTY", path);
    this.#change(parent, (entries) => entries.delete(name));
  }

  #placeOf(path: string): { readonly parent: DirectoryNode; readonly name: string } {
    const parts = partsOf(path);
    const name = parts.pop() ?? "";
    return { parent: this.#directoryAt(parts.join("/")), name };
  }

  #directory(): DirectoryNode {
    const maps = { entries: new Map(), durable: new Map(), pending: [] };
    return { kind: "directory", id: ++this.#nodes, ...maps, modifiedMs: this.#nowMs() };
  }

  #change(directory: DirectoryNode, apply: (entries: Map<string, DiskNode>) => void): void {
    apply(directory.entries);
    directory.pending.push(apply);
    directory.modifiedMs = this.#nowMs();
  }

  #revive(node: DiskNode, random: Random): void {
    if (node.kind === "file") {
      const kept = Math.floor(random.next() * (node.data.length + 1));
      const isSynced = node.durable.length === node.data.length;
      if (!isSynced) node.data = kept < node.durable.length ? node.durable : node.data.slice(0, kept);
      node.durable = node.data;
      node.changes += 1;
      return;
    }
    const entries = new Map(node.durable);
    for (const apply of node.pending) if (random.next() < 0.5) apply(entries);
    node.entries = entries;
    settle(node);
    for (const child of entries.values()) this.#revive(child, random);
  }
}

function durableOf(node: DiskNode): DiskNode {
  if (node.kind === "file") return { ...node, data: node.durable };
  const entries = new Map([...node.durable].map(([name, child]) => [name, durableOf(child)]));
  return { ...node, entries, durable: entries, pending: [] };
}

function settle(directory: DirectoryNode): void {
  directory.durable = new Map(directory.entries);
  directory.pending = [];
}

function statOf(node: DiskNode | null): PathStat | null {
  if (!node) return null;
  const isFile = node.kind === "file";
  return {
    kind: node.kind,
    sizeBytes: isFile ? node.data.length : 0,
    links: 1,
    modifiedMs: node.modifiedMs,
    signature: `${node.id}:${isFile ? node.changes : node.entries.size}`,
  };
}

function partsOf(path: string): string[] {
  return path.split("/").filter(Boolean);
}

function systemError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}
