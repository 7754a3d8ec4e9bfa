import { randomOf } from "@muster/base";
import { describe, expect, it } from "vitest";
import { EventHeap } from "../../src/world/event-heap.ts";

function drain(heap: EventHeap): number[] {
  const times: number[] = [];
  for (let event = heap.pop(); event; event = heap.pop()) times.push(event.atMs);
  return times;
}

describe("the heap of events", () => {
  it("gives a thousand events in order of their time", () => {
    const heap = new EventHeap();
    const random = randomOf(7);
    const times = Array.from({ length: 1_000 }, () => Math.floor(random.next() * 300));
    for (const atMs of times) heap.push(atMs, () => {});
    expect(drain(heap)).toEqual(times.toSorted((a, b) => a - b));
  });

  it("keeps the order of arrival among events of one moment", () => {
    const heap = new EventHeap();
    const seen: number[] = [];
    for (let i = 0; i < 100; i++) heap.push(5, () => seen.push(i));
    for (let event = heap.pop(); event; event = heap.pop()) event.run();
    expect(seen).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  it("drops what was cancelled, and does not mind a second cancel or a late one", () => {
    const heap = new EventHeap();
    const cancels = [3, 1, 2].map((atMs) => heap.push(atMs, () => {}));
    cancels[1]?.();
    cancels[1]?.();
    expect(heap.pop()?.atMs).toBe(2);
    cancels[2]?.();
    expect(drain(heap)).toEqual([3]);
    expect(heap.pop()).toBeNull();
  });
});
