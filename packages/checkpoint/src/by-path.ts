/** One checkpoint, read by the path of its folder from any process. */
import { basename, dirname } from "node:path";
import type { CheckpointFs } from "./files.ts";
import { gathered, type HashPieces } from "./hash/gathered.ts";
import { nodeFs } from "./node-files.ts";
import { type CheckpointInfo, type Folder, type LoadedCheckpoint, loadFolder, verifyFolder } from "./read.ts";
import { type ChooseParts, type ReadParts, readParts } from "./read-parts.ts";

/** How a checkpoint is read: `signal` ends it early; `fs` is by default the disk of this host, `hashPieces` as in a store. */
interface ReadOptions {
  readonly signal?: AbortSignal;
  readonly fs?: CheckpointFs;
  readonly hashPieces?: HashPieces | undefined;
}

const folderOf = (path: string, { fs = nodeFs, hashPieces }: ReadOptions): Folder => ({
  ...{ fs, root: dirname(path), name: basename(path), hash: gathered(hashPieces) },
});

/** Reads one checkpoint, as a save reported it; verifies as a store's `load` does, with the same errors. */
export async function loadCheckpoint(path: string, options: ReadOptions = {}): Promise<LoadedCheckpoint> {
  return loadFolder(folderOf(path, options), options.signal);
}

/**
 * Reads parts of one checkpoint: no byte of it that is not wanted is read, except for what is cheaper read than left out. Sizes are checked, digests are
 * not: who reads parts compares those of what they make up.
 *
 * @throws the errors of {@link loadCheckpoint}; what `choose` throws
 */
export async function loadCheckpointParts(
  path: string,
  choose: ChooseParts,
  options: ReadOptions = {},
): Promise<ReadParts> {
  return readParts(folderOf(path, options), choose, options.signal);
}

/** Reads one checkpoint through and checks every size and sha-256, in the memory of a few pieces, with the errors of {@link loadCheckpoint}. */
export async function verifyCheckpoint(path: string, options: ReadOptions = {}): Promise<CheckpointInfo> {
  return verifyFolder(folderOf(path, options), options.signal);
}
