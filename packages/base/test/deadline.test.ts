import { describe, expect, it } from "vitest";
import { type Clock, withDeadline } from "../src/index.ts";

/** A clock that moves only when it is told to. */
function manualClock(): Clock & { advance(ms: number): void; readonly pending: number } {
  let nowMs = 0;
  let timers: { readonly atMs: number; readonly run: () => void }[] = [];
  return {
    now: () => nowMs,
    after(delayMs, run) {
      const timer = { atMs: nowMs + delayMs, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    advance(ms) {
      nowMs += ms;
      const due = timers.filter(({ atMs }) => atMs <= nowMs);
      timers = timers.filter(({ atMs }) => atMs > nowMs);
      for (const { run } of due) run();
    },
    get pending() {
      return timers.length;
    },
  };
}

/** Work that ends only when its signal does. */
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop);
  });

describe("withDeadline", () => {
  it("gives the result of work that ends in time, and leaves no timer", async () => {
    const clock = manualClock();
    await expect(withDeadline(async () => 5, { what: "sum", timeoutMs: 10, clock })).resolves.toBe(5);
    expect(clock.pending).toBe(0);
  });

  it("passes the error of the work on, and leaves no timer", async () => {
    const clock = manualClock();
    const work = Promise.reject(new Error("broken"));
    await expect(withDeadline(() => work, { what: "sum", timeoutMs: 10, clock })).rejects.toThrow("broken");
    expect(clock.pending).toBe(0);
  });

  it("tells work that is late to end, and says what was late", async () => {
    const clock = manualClock();
    let seen: AbortSignal | undefined;
    const result = withDeadline(
      (signal) => {
        seen = signal;
        return new Promise<never>(() => {});
      },
      { what: "the pull", timeoutMs: 250, clock },
    );
    const rejected = expect(result).rejects.toMatchObject({
      code: "MUSTER_ERR_DEADLINE_EXPIRED",
      message: "the pull did not end within 250 ms",
      retryable: true,
    });
    clock.advance(249);
    expect(seen?.aborted).toBe(false);
    clock.advance(1);
    await rejected;
    expect(seen?.reason).toMatchObject({ code: "MUSTER_ERR_DEADLINE_EXPIRED" });
  });

  it("passes an abort of the caller on to the work with its reason", async () => {
    const clock = manualClock();
    const controller = new AbortController();
    const options = { what: "the pull", timeoutMs: 250, clock, signal: controller.signal };
    const result = withDeadline(untilAborted, options);
    controller.abort(new Error("fenced"));
    await expect(result).rejects.toThrow("fenced");
    expect(clock.pending).toBe(0);
  });

  it("starts work aborted when the caller was aborted before", async () => {
    const options = { what: "x", timeoutMs: 1, clock: manualClock(), signal: AbortSignal.abort(new Error("stopped")) };
    await expect(withDeadline(untilAborted, options)).rejects.toThrow("stopped");
  });
});
