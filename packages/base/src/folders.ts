/**
 * Folders are made one by one, from above. The recursive `mkdir` of Node never returns where no folder can be made in one that is there, as in
 * /proc: it tries the two in turns for ever, and a call that blocks keeps a process from hearing signals.
 */

/** What of `node:fs` and `node:path` it takes. */
export interface FolderCalls {
  mkdirSync(path: string, options: { readonly mode: number }): unknown;
  statSync(path: string, options: { readonly throwIfNoEntry: false }): { isDirectory(): boolean } | undefined;
  dirname(path: string): string;
}

/** For the owner alone. */
const ownerOnly = 0o700;

/** Mode of folders that others may read as far as the process's mask allows. */
export const byUmask = 0o777;

/**
 * A function that makes a folder, and those above it that are not there.
 *
 * @returns Takes path and mode (default: for their owner alone), and gives the first folder that was made, `undefined` when all were there. It throws
 * the system's error, which names the folder that can not be made.
 */
export function folderMaker({ mkdirSync, statSync, dirname }: FolderCalls) {
  return function make(path: string, mode = ownerOnly): string | undefined {
    const isFolder = (): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
    if (isFolder()) return undefined;
    const first = dirname(path) === path ? undefined : make(dirname(path), mode);
    try {
      mkdirSync(path, { mode });
      return first ?? path;
    } catch (error) {
      // Somebody else may have been faster.
      if ((error as { readonly code?: unknown }).code === "EEXIST" && isFolder()) return first;
      throw error;
    }
  };
}
