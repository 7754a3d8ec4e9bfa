import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mixSeed, randomOf, shuffled } from "../src/index.ts";

const take = (count: number, ...key: number[]): number[] => {
  const random = randomOf(...key);
  return Array.from({ length: count }, () => Math.round(random.next() * 4294967296));
};

describe("a random stream", () => {
  // Written down once: a stream that changes would change the weights of every job.
  it("gives the numbers it has always given", () => {
    expect([mixSeed(), mixSeed(0), mixSeed(1), mixSeed(1, 2, 3), mixSeed(-1), mixSeed(2 ** 31)]).toEqual([
      2654435769, 493009611, 1059954845, 2901138804, 4288662295, 1446441375,
    ]);
    expect(take(4, 7)).toEqual([3175571804, 2880406231, 3642865975, 2263346200]);
    expect(take(4, 1, 2, 3)).toEqual([3881513679, 1969442311, 1184596089, 54588112]);
    expect(shuffled([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], randomOf(42))).toEqual([4, 5, 3, 1, 2, 7, 0, 8, 6, 9]);
  });

  it("depends on nothing but its key", () => {
    const first = randomOf(3, 1);
    const second = randomOf(3, 2);
    const woven = Array.from({ length: 8 }, () => [first.next(), second.next()]);
    expect(woven.map(([a]) => a)).toEqual(
      Array.from(
        { length: 8 },
        (
          (r) => () =>
            r.next()
        )(randomOf(3, 1)),
      ),
    );
    expect(woven.map(([, b]) => b)).toEqual(
      Array.from(
        { length: 8 },
        (
          (r) => () =>
            r.next()
        )(randomOf(3, 2)),
      ),
    );
  });

  it("differs between keys that differ in one part or in order", () => {
    const firsts = [take(1, 1, 2), take(1, 2, 1), take(1, 1, 2, 0), take(1, 1), take(1, 1, 3)].map(([n]) => n);
    expect(new Set(firsts).size).toBe(firsts.length);
  });

  it("stays in its ranges", () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 1, max: 1_000 }), (seed, bound) => {
        const random = randomOf(seed);
        for (let i = 0; i < 50; i++) {
          const next = random.next();
          const below = random.below(bound);
          expect(next >= 0 && next < 1).toBe(true);
          expect(Number.isInteger(below) && below >= 0 && below < bound).toBe(true);
        }
      }),
    );
  });

  it("is spread evenly over its range", () => {
    const random = randomOf(11);
    const draws = Array.from({ length: 20_000 }, () => random.below(10));
    for (let digit = 0; digit < 10; digit++) {
      const share = draws.filter((draw) => draw === digit).length / draws.length;
      expect(Math.abs(share - 0.1), `share of ${digit}`).toBeLessThan(0.01);
    }
  });
});

describe("a shuffle", () => {
  it("keeps every item once and leaves the original alone", () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.integer(), (items, seed) => {
        const before = [...items];
        const sort = (list: readonly number[]): number[] => [...list].sort((a, b) => a - b);
        expect(sort(shuffled(items, randomOf(seed)))).toEqual(sort(items));
        expect(items).toEqual(before);
      }),
    );
  });

  it("reaches every order of three items", () => {
    const orders = new Set(Array.from({ length: 100 }, (_, seed) => shuffled([1, 2, 3], randomOf(seed)).join()));
    expect(orders.size).toBe(6);
  });
});
