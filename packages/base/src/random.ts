/**
 * Seeded random streams. A stream is a pure function of its key, so that a trajectory's randomness does not depend on who computes it.
 * Generator: mulberry32, seeded through the murmur3 finaliser. Only 32-bit integer arithmetic, so it is exact on every JavaScript engine.
 */
import type { Random } from "./contract.ts";

/** Mixes numbers into one 32-bit seed (murmur3 finaliser after each part). Parts are taken as 32-bit integers. */
export function mixSeed(...parts: readonly number[]): number {
  let hash = 0x9e3779b9;
  for (const part of parts) {
    hash = Math.imul(hash ^ (part | 0), 0x85ebca6b);
    hash ^= hash >>> 13;
    hash = Math.imul(hash, 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return hash >>> 0;
}

/** Starts the stream of a key, e.g. `randomOf(seed, step, groupIndex)`. */
export function randomOf(...key: readonly number[]): Random {
  let state = mixSeed(...key);
  const next32 = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
  return {
    next: () => next32() / 4294967296,
    below: (bound) => Math.floor((next32() / 4294967296) * bound),
  };
}

/** Shuffles a copy (Fisher–Yates) with a stream. */
export function shuffled<T>(items: readonly T[], random: Random): T[] {
  const copy = [...items];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = random.below(i + 1);
    [copy[i], copy[j]] = [copy[j] as T, copy[i] as T];
  }
  return copy;
}
