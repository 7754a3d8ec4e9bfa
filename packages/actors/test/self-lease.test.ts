/** A replica that was away too long starts nothing until the controller has answered it. */
import { manualClock } from "@muster/runtime/internal";
import { describe, expect, it } from "vitest";
import { SelfLease } from "../src/replica/self-lease.ts";

function leased() {
  const clock = manualClock();
  const asked: number[] = [];
  const lease = new SelfLease(clock, () => void asked.push(clock.now()));
  lease.renew(10_000);
  return { clock, lease, asked };
}

describe("a replica's own lease", () => {
  it("is bound to nothing while it is connected and its loop turns", () => {
    const { clock, lease, asked } = leased();
    for (let second = 0; second < 60; second++) clock.advance(1_000);
    expect(lease.admits("step.run")).toBe(true);
    expect(asked).toEqual([]);
  });

  it("lapses after the dead time-out without the broker: no new epoch work until the controller has answered", () => {
    const { clock, lease, asked } = leased();
    lease.connected(false);
    for (let second = 0; second < 9; second++) clock.advance(1_000);
    expect(lease.admits("mesh.build")).toBe(true);
    clock.advance(1_000);
    for (const kind of ["mesh.build", "step.run", "groups.lease"] as const) expect(lease.admits(kind)).toBe(false);
    for (const kind of ["step.apply", "weights.pull", "replica.fenced"] as const) expect(lease.admits(kind)).toBe(true);
    expect(asked).toEqual([]);
    lease.connected(true);
    expect(asked).toHaveLength(1);
    expect(lease.admits("step.run")).toBe(false);
    lease.renew(10_000);
    expect(lease.admits("step.run")).toBe(true);
  });

  it("lapses when the process stood still as long, before the first old order is looked at", () => {
    const { clock, lease, asked } = leased();
    clock.advance(500);
    lease.stop();
    clock.advance(10_000);
    expect(lease.admits("step.run")).toBe(false);
    expect(asked).toHaveLength(1);
  });

  it("binds nobody before the controller has said how long a silence may be", () => {
    const clock = manualClock();
    const lease = new SelfLease(clock, () => {});
    lease.connected(false);
    clock.advance(1_000_000);
    expect(lease.admits("step.run")).toBe(true);
  });
});
