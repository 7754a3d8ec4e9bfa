/** Weights as Python pickles: they are never read, because that may run code of whoever made them. */
import { readdir, stat } from "node:fs/promises";

const pickle = /\.(bin|pt|pth|ckpt|pkl|pickle)$/i;

const convert =
  "python -c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('FOLDER').save_pretrained('OUT', safe_serialization=True)\"";

/**
 * Why a path without the files of a model folder is none, where it is plain to see: it is a file, or what it holds are pickles. `null` where it is not.
 */
export async function pickleReason(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null);
  const isFile = found?.isFile() ?? false;
  const names = isFile ? [path.slice(path.lastIndexOf("/") + 1)] : await readdir(path).catch((): string[] => []);
  const pickles = names.filter((name) => pickle.test(name)).sort();
  const [first] = pickles;
  if (first === undefined)
    return isFile ? "it is a file; name the folder that holds config.json and the weights" : null;
  const others = pickles.length > 1 ? ` and ${pickles.length - 1} more` : "";
  return `${first}${others} ${pickles.length > 1 ? "are" : "is"} written as a Python pickle, which is never read, because that may run code of whoever made it; convert the model where you trust it, and name the new folder: ${convert}`;
}
