/** Folders of this user: made, or taken when nobody else can have put anything into them. */
import { chmodSync, lstatSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { folderMaker } from "@muster/base";
import { errors } from "./errors.ts";

/** For the owner alone. */
const mode = 0o700;

/** Makes a folder, and those above it that are not there, as {@link folderMaker} has it. */
export const makeFolderSync = folderMaker({ mkdirSync, statSync, dirname });

/**
 * Makes a folder in which this process keeps keys and answers that it believes, or takes one that is there when nobody else can have put
 * anything into it: this user's own, no link, not open to the writing of others. Reading by others is closed. A folder of the system in
 * which nobody can replace what is another's (as `/tmp`) is taken as it is.
 *
 * @throws MUSTER_ERR_FOLDER_FOREIGN, or the system's error.
 */
export function makeOwnFolderSync(path: string): void {
  if (makeFolderSync(path) !== undefined) return;
  const { mode: bits, uid } = lstatSync(path);
  const owner = process.geteuid?.() ?? uid;
  if ((bits & kindMask) === linkKind) throw errors.FolderForeign({ path, reason: "is a link" });
  const isWritten = (bits & writtenByOthers) !== 0;
  if (isWritten && (bits & sticky) !== 0 && (uid === owner || uid === 0)) return;
  if (uid !== owner)
    throw errors.FolderForeign({ path, reason: `belongs to the user ${uid}, and this process runs as ${owner}` });
  if (isWritten) throw errors.FolderForeign({ path, reason: "can be written by others" });
  if ((bits & forOthers) !== 0) chmodSync(path, mode);
}

/** Bits of a mode, see stat(2) and inode(7). */
const kindMask = 0o170000;
const linkKind = 0o120000;
const sticky = 0o1000;
const writtenByOthers = 0o022;
const forOthers = 0o077;
