/**
 * Folders are made one by one, from above. The recursive `mkdir` of Node never returns where no folder can be made in one that is there, as in
 * /proc: it tries the two in turns for ever, and a call that blocks keeps a process from hearing signals.
 */
import { mkdirSync, statSync } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** For the owner alone. */
const mode = 0o700;

/**
 * Makes a folder, and those above it that are not there, for their owner alone.
 *
 * @returns The first one that was made, `undefined` when all were there.
 * @throws The system's error, which names the folder that can not be made.
 */
export async function makeFolder(path: string): Promise<string | undefined> {
  const isFolder = (): Promise<boolean> => stat(path).then((entry) => entry.isDirectory());
  if (await isFolder().catch(() => false)) return undefined;
  const first = dirname(path) === path ? undefined : await makeFolder(dirname(path));
  try {
    await mkdir(path, { mode });
    return first ?? path;
  } catch (error) {
    // Somebody else may have been faster.
    if (codeOf(error) === "EEXIST" && (await isFolder())) return first;
    throw error;
  }
}

/** The same, for who can not wait. */
export function makeFolderSync(path: string): string | undefined {
  const isFolder = (): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  if (isFolder()) return undefined;
  const first = dirname(path) === path ? undefined : makeFolderSync(dirname(path));
  try {
    mkdirSync(path, { mode });
    return first ?? path;
  } catch (error) {
    if (codeOf(error) === "EEXIST" && isFolder()) return first;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return (error as NodeJS.ErrnoException).code;
}
