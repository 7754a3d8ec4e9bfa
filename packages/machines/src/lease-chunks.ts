/**
 * How a lease is cut, which both of its sides must know alike: a holder works chunk by chunk, and the controller tells from the same cut what a holder that
 * is gone had begun.
 */
import type { WorkItem } from "@muster/protocol";

/** Chunks about which a holder may still have something to tell when it begins another one: more than that could not be told from the guilty one. */
export const untoldMax = 1;

/** Chunks of a lease that its holder may have begun and not told of, the first ones: those, and the one that it works on. */
export const startedMax = untoldMax + 1;

/** Cuts the items of a lease: held-out prompts apart from groups, at most `size` groups each. Pure. */
export function cutItems(items: readonly WorkItem[], size: number): readonly (readonly WorkItem[])[] {
  const chunks: WorkItem[][] = [];
  for (const item of items) {
    const last = chunks.at(-1);
    if (item.purpose === "train" && last?.[0]?.purpose === "train" && last.length < size) last.push(item);
    else chunks.push([item]);
  }
  return chunks;
}
