import { afterEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../src/index.ts";
import { manualClock } from "../src/internal.ts";

describe("the manual clock", () => {
  test("stands still until it is moved", () => {
    const clock = manualClock();
    let fired = 0;
    clock.after(10, () => fired++);
    expect([clock.now(), fired]).toEqual([0, 0]);
    clock.advance(9);
    expect([clock.now(), fired]).toEqual([9, 0]);
    clock.advance(1);
    expect([clock.now(), fired]).toEqual([10, 1]);
  });

  test("fires in order of time, then of start, and shows each its own time", () => {
    const clock = manualClock();
    const fired: string[] = [];
    clock.after(20, () => fired.push(`c@${clock.now()}`));
    clock.after(10, () => fired.push(`a@${clock.now()}`));
    clock.after(10, () => fired.push(`b@${clock.now()}`));
    clock.advance(100);
    expect(fired).toEqual(["a@10", "b@10", "c@20"]);
  });

  test("fires timers that were started by timers when they fall into the same move", () => {
    const clock = manualClock();
    const fired: number[] = [];
    const again = (): void => {
      fired.push(clock.now());
      if (fired.length < 3) clock.after(5, again);
    };
    clock.after(5, again);
    clock.advance(15);
    expect(fired).toEqual([5, 10, 15]);
  });

  test("does not fire what was cancelled, and bears cancelling twice", () => {
    const clock = manualClock();
    const cancel = clock.after(1, () => expect.fail("cancelled timer fired"));
    cancel();
    cancel();
    clock.advance(10);
    expect(clock.untilNextMs()).toBeNull();
  });

  test("tells how far the next timer is", () => {
    const clock = manualClock();
    clock.after(30, () => {});
    clock.advance(10);
    expect(clock.untilNextMs()).toBe(20);
  });
});

describe("the system clock", () => {
  afterEach(() => vi.useRealTimers());

  test("never goes back", () => {
    const clock = systemClock();
    const first = clock.now();
    expect(clock.now()).toBeGreaterThanOrEqual(first);
  });

  test("keeps delays that are longer than one timer of the platform", () => {
    vi.useFakeTimers();
    const month = 30 * 24 * 3_600_000;
    let fired = 0;
    systemClock().after(month, () => fired++);
    vi.advanceTimersByTime(month - 1);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(1);
    expect(fired).toBe(1);
  });

  test("cancels a long delay in its second half", () => {
    vi.useFakeTimers();
    const cancel = systemClock().after(2 ** 31 + 1000, () => expect.fail("cancelled timer fired"));
    vi.advanceTimersByTime(2 ** 31 + 10);
    cancel();
    vi.advanceTimersByTime(10_000);
  });
});
