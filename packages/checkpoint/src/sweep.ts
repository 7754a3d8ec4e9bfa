/** What writers that died have left in a checkpoint root. */
import { join } from "node:path";
import { isLeftover } from "./names.ts";
import { claim, orGone, type Place, removeFolder, removeTree } from "./write.ts";

const defaultGraceMs = 3_600_000;

/**
 * Removes leftovers that did not change for longer than the grace, which is to be longer than any write. The age is by the disk's own clock: hosts that
 * share a disk may have others, and one that is an hour ahead must not take what is being written for a leftover. Each goes as a whole: a writer that only
 * stood still, and goes on while it is removed, finds nothing to give its name to, and never a part.
 *
 * @returns Names of what it removed.
 */
export async function sweep(place: Place, graceMs = defaultGraceMs): Promise<readonly string[]> {
  const { fs, root } = place;
  const left = (await fs.list(root)).filter(isLeftover);
  if (left.length === 0) return [];
  const oldestMs = (await diskNowMs(place)) - graceMs;
  const removed: string[] = [];
  for (const name of left) {
    const path = join(root, name);
    const stat = await fs.stat(path);
    if (stat === null || stat.modifiedMs > oldestMs) continue;
    await orGone(name.startsWith(".trash-") ? removeTree(fs, path) : removeFolder(place, name));
    removed.push(name);
  }
  return removed;
}

/** The time of the disk, as it stamps a file that is made now. */
async function diskNowMs({ fs, root }: Place): Promise<number> {
  const name = await claim(".tmp-clock", "-", async (own) => (await fs.create(join(root, own))).close());
  const stat = await fs.stat(join(root, name));
  await orGone(removeTree(fs, join(root, name)));
  return stat?.modifiedMs ?? Number.NEGATIVE_INFINITY;
}
