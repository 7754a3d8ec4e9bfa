import { describe, expect, it } from "vitest";
import { randomOf, rowsWithin, type StridedRows } from "../src/index.ts";

/** Copies rows byte by byte. */
function copied(rows: Iterable<StridedRows>, source: readonly number[], targetBytes: number): number[] {
  const target = new Array<number>(targetBytes).fill(-1);
  for (const { sourceOffset, sourceStride, targetOffset, targetStride, bytes, count } of rows)
    for (let row = 0; row < count; row++)
      for (let i = 0; i < bytes; i++)
        target[targetOffset + row * targetStride + i] = source[sourceOffset + row * sourceStride + i] ?? -2;
  return target;
}

/** A few entries one behind the other in the target, with gaps, whose source rows lie anywhere. */
function drawn(seed: number): { readonly rows: readonly StridedRows[]; readonly targetBytes: number } {
  const random = randomOf(seed, 5);
  let end = random.below(4);
  const rows = Array.from({ length: 1 + random.below(5) }, (): StridedRows => {
    const [bytes, count] = [1 + random.below(9), 1 + random.below(6)];
    const [targetOffset, targetStride] = [end, bytes + random.below(5)];
    end += targetStride * (count - 1) + bytes + random.below(4);
    return {
      ...{ sourceOffset: random.below(40), sourceStride: random.below(20), targetOffset, bytes, count },
      // The distance of a single row means nothing.
      targetStride: count === 1 ? random.below(3) : targetStride,
    };
  });
  return { rows, targetBytes: end };
}

describe("rows within a window", () => {
  const source = Array.from({ length: 400 }, (_, i) => i);

  it("are those of the whole, for every window of two hundred drawn plans", () => {
    for (let seed = 0; seed < 200; seed++) {
      const { rows, targetBytes } = drawn(seed);
      const whole = copied(rows, source, targetBytes);
      for (const size of [1, 2, 3, 7, 16, targetBytes, targetBytes + 1])
        for (let from = 0; from < targetBytes; from += size) {
          const part = copied(rowsWithin(rows, { from, bytes: size }), source, size);
          const end = Math.min(size, targetBytes - from);
          expect(part.slice(0, end), `seed ${seed}, window ${from} + ${size}`).toEqual(whole.slice(from, from + end));
          expect(
            part.slice(end).every((byte) => byte === -1),
            "nothing is outside of the target",
          ).toBe(true);
        }
    }
  });

  it("stay one entry where they lie inside, whatever their number: a window costs no row", () => {
    const million = { sourceOffset: 0, sourceStride: 8, targetOffset: 0, targetStride: 16, bytes: 4, count: 1_000_000 };
    const [first, inner, last, ...rest] = rowsWithin([million], { from: 18, bytes: 160_000 });
    expect(first).toMatchObject({ sourceOffset: 10, targetOffset: 0, bytes: 2, count: 1 });
    expect(inner).toMatchObject({ sourceOffset: 16, targetOffset: 14, bytes: 4, count: 9_999 });
    expect(last).toMatchObject({ sourceOffset: 80_008, targetOffset: 159_998, bytes: 2, count: 1 });
    expect(rest).toEqual([]);
  });
});
