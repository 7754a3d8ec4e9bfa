import type { CheckpointFs } from "./files.ts";
import { parseName } from "./names.ts";
import { nodeFs } from "./node-files.ts";

/**
 * Name of the newest checkpoint in a folder, by what the names say: nothing is read or verified. `null` when there is none, or no such folder.
 *
 * @throws The system's error when the folder is there and cannot be read.
 */
export async function newestCheckpointName(
  root: string,
  fs: Pick<CheckpointFs, "list"> = nodeFs,
): Promise<string | null> {
  const found = await fs.list(root).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const named = found.flatMap((text) => {
    const name = parseName(text);
    return name ? [{ text, ...name }] : [];
  });
  return named.sort((a, b) => b.term - a.term || b.step - a.step)[0]?.text ?? null;
}
