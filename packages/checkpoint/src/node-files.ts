/** The real disk, through node:fs. Private modes, exclusive creation, no following of links. */
import { type BigIntStats, constants, mkdirSync, statSync } from "node:fs";
import {
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rmdir,
  statfs,
  unlink,
} from "node:fs/promises";
import { dirname } from "node:path";
import { folderMaker } from "@muster/base";
import { type CheckpointFs, type PathStat, type ReadableFile, systemCode, type WritableFile } from "./files.ts";

const createFlags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Non-blocking, because opening a named pipe would otherwise wait for its writer for ever. */
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Nothing is there, or nothing that a path through folders leads to. */
const absentCodes: readonly string[] = ["ENOENT", "ENOTDIR", "ELOOP"];

const makeFolderSync = folderMaker({ mkdirSync, statSync, dirname });

/** The file system of this host. */
export const nodeFs: CheckpointFs = {
  async prepareRoot(path) {
    const firstMade = makeFolderSync(path);
    const root = await realpath(path);
    if (firstMade !== undefined) await syncParents(root, dirname(await realpath(firstMade)));
    return root;
  },
  makeDirectory: (path) => mkdir(path, { mode: 0o700 }),
  create: async (path) => writable(await open(path, createFlags, 0o600)),
  open: async (path) => readable(await open(path, readFlags)),
  async stat(path) {
    try {
      return toPathStat(await lstat(path, { bigint: true }));
    } catch (error) {
      if (absentCodes.includes(systemCode(error))) return null;
      throw error;
    }
  },
  list: (path) => readdir(path),
  rename: (from, to) => rename(from, to),
  async syncDirectory(path) {
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  async freeBytes(path) {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  },
  removeFile: (path) => unlink(path),
  removeDirectory: (path) => rmdir(path),
};

/** A directory lasts only when its parent knows it durably: syncs from the parent of `path` up to `last`. */
async function syncParents(path: string, last: string): Promise<void> {
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    await nodeFs.syncDirectory(parent);
    if (parent === last || parent === dirname(parent)) return;
  }
}

function writable(handle: FileHandle): WritableFile {
  return {
    async write(bytes, positionBytes) {
      for (let done = 0; done < bytes.length; )
        done += (await handle.write(bytes, done, bytes.length - done, positionBytes + done)).bytesWritten;
    },
    sync: () => handle.sync(),
    close: () => handle.close(),
  };
}

async function readable(handle: FileHandle): Promise<ReadableFile> {
  try {
    const stat = toPathStat(await handle.stat({ bigint: true }));
    return {
      stat,
      read: async (target, positionBytes) => (await handle.read(target, 0, target.length, positionBytes)).bytesRead,
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

function toPathStat(stat: BigIntStats): PathStat {
  return {
    kind: stat.isFile() ? "file" : stat.isDirectory() ? "directory" : "other",
    sizeBytes: Number(stat.size),
    links: Number(stat.nlink),
    modifiedMs: Number(stat.mtimeMs),
    signature: [stat.dev, stat.ino, stat.size, stat.nlink, stat.mtimeNs, stat.ctimeNs].join(":"),
  };
}
