/**
 * The few numbers that the main thread writes and the heartbeat thread reads, in shared memory: no message passing, so a busy main
 * loop can neither delay nor stop a beat. Each slot is one 64-bit integer, written whole.
 */

const slots = {
  version: 0,
  phase: 1,
  progress: 2,
  loopTickNs: 3,
  term: 4,
  epoch: 5,
  liveness: 6,
  generation: 7,
} as const;

/** Name of a slot. */
export type Slot = keyof typeof slots;

/** `liveness` and `generation` of a replica whose engine is not checked. */
const noChecks = -1;

/** `version` before any weights are held. */
export const noVersion = -1;

/** View on the shared numbers; both threads make one on the same memory. */
export interface SharedState {
  readonly memory: SharedArrayBuffer;
  /** Whole number, −1 … 2^53 − 1. */
  get(slot: Exclude<Slot, "loopTickNs">): number;
  set(slot: Exclude<Slot, "loopTickNs">, value: number): void;
  add(slot: "progress", value: number): void;
  /** The main loop is alive now. */
  tick(): void;
  /** Milliseconds since the last tick, beyond the `tickMs` that lie between ticks; ≥ 0. */
  loopLagMs(tickMs: number): number;
}

/** Opens the shared numbers; without memory, new ones with no version and all else 0. */
export function openSharedState(memory = freshMemory()): SharedState {
  const cells = new BigInt64Array(memory);
  return {
    memory,
    get: (slot) => Number(Atomics.load(cells, slots[slot])),
    set: (slot, value) => void Atomics.store(cells, slots[slot], BigInt(value)),
    add: (slot, value) => void Atomics.add(cells, slots[slot], BigInt(value)),
    // hrtime is one monotonic clock for all threads of a process; performance.now() has an origin per thread.
    tick: () => void Atomics.store(cells, slots.loopTickNs, process.hrtime.bigint()),
    loopLagMs(tickMs) {
      const sinceNs = process.hrtime.bigint() - Atomics.load(cells, slots.loopTickNs);
      return Math.max(0, Number(sinceNs) / 1e6 - tickMs);
    },
  };
}

function freshMemory(): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(Object.keys(slots).length * BigInt64Array.BYTES_PER_ELEMENT);
  const cells = new BigInt64Array(memory);
  cells[slots.version] = BigInt(noVersion);
  cells[slots.liveness] = BigInt(noChecks);
  cells[slots.generation] = BigInt(noChecks);
  cells[slots.loopTickNs] = process.hrtime.bigint();
  return memory;
}
