/** Which files hold a split: a file is itself; a folder is that of a Hugging Face dataset. */
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";

const kinds = /\.(jsonl|parquet)$/;

/**
 * Files of a split in the order of their names. In a folder they are those that are named after it, such as `train.jsonl`,
 * `train-00000-of-00004.parquet` or `train/0.parquet`, at the top, in `data/` or in any folder of one level.
 *
 * @throws MUSTER_ERR_PROMPTS_UNREADABLE naming what is there
 */
export async function filesOfSplit(path: string, split: string): Promise<readonly string[]> {
  const what = await stat(path).catch((error: unknown) => {
    throw errors.PromptsUnreadable({ path, reason: messageOf(error) }, error);
  });
  if (!what.isDirectory()) return [checkKind(path)];
  const names = await namesIn(path);
  const own = names.filter((name) => isOfSplit(name, split));
  if (own.length > 0) return own.map((name) => join(path, name));
  const there = names.slice(0, 8).join(", ") || "none";
  throw errors.PromptsUnreadable({
    path,
    reason: `no .jsonl or .parquet file of the split "${split}" is there (files: ${there}); name another split, or the file itself`,
  });
}

function checkKind(path: string): string {
  if (kinds.test(path)) return path;
  throw errors.PromptsUnreadable({
    path,
    reason: "prompts come from .jsonl and .parquet files, and from folders of them",
  });
}

/** Files with rows in a folder and in its folders, as paths below it. */
async function namesIn(path: string): Promise<readonly string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  const inner = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
  const below = await Promise.all(
    inner.map(async ({ name }) => (await readdir(join(path, name))).map((file) => join(name, file))),
  );
  const files = entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
  return [...files, ...below.flat()].filter((name) => kinds.test(name)).sort();
}

/** `train.jsonl`, `data/train-00000-of-00004.parquet`, `train/0000.parquet`. */
function isOfSplit(name: string, split: string): boolean {
  const file = basename(name).replace(kinds, "");
  return file === split || file.startsWith(`${split}-`) || name.startsWith(`${split}/`);
}
