import { describe, expect, it } from "vitest";
import { modelsOf } from "../support/models.ts";

describe("a simulated process", () => {
  it("is entered no more once it is dead, whatever was on its way", async () => {
    const { process: spawn, runFor } = modelsOf();
    const process = spawn("policy-1");
    const seen: string[] = [];
    process.after(10, () => seen.push("before"));
    process.after(30, () => seen.push("after"));
    process.after(20, () => process.kill());
    await runFor(100);
    process.enter(() => seen.push("later"));
    expect(seen).toEqual(["before"]);
    expect(process.isDead).toBe(true);
  });

  it("says so before it ends by itself, and not when it is killed", () => {
    const { process: spawn } = modelsOf();
    const seen: string[] = [];
    for (const [id, how] of [["policy-1", "end"] as const, ["policy-2", "kill"] as const]) {
      const process = spawn(id);
      process.onEnd(() => seen.push(`${id} ${process.state}`));
      process[how]();
      process.end();
    }
    expect(seen).toEqual(["policy-1 running"]);
  });

  it("takes what came while it stood still when it goes on, in the order of arrival", async () => {
    const { process: spawn, world, runFor } = modelsOf();
    const process = spawn("policy-1");
    const seen: string[] = [];
    process.freeze("paused");
    for (const name of ["a", "b", "c"]) process.enter(() => seen.push(name));
    process.after(5, () => seen.push("timer"));
    await runFor(50);
    expect(seen).toEqual([]);
    process.thaw();
    await runFor(1);
    expect(seen).toEqual(["a", "b", "c", "timer"]);
    expect(world.nowMs).toBe(51);
  });

  it("has a clock with an origin and a rate of its own", async () => {
    const { world, runFor } = modelsOf();
    const { SimProcess } = await import("../../src/world/process.ts");
    const given = { name: "p#1", node: "p", role: "policy", pid: 1, clockOffsetMs: 500, clockRate: 2 };
    const process = new SimProcess(world, given);
    let firedMs = 0;
    process.clock.after(100, () => {
      firedMs = world.nowMs;
    });
    await runFor(60);
    expect(firedMs).toBe(50);
    expect(process.clock.now()).toBe(500 + 120);
  });

  it("wakes from a sleep by its signal, and never after its death", async () => {
    const { process: spawn, runFor } = modelsOf();
    const [first, second] = [spawn("a"), spawn("b")];
    const abort = new AbortController();
    const outcomes: string[] = [];
    const note = (name: string) => [() => outcomes.push(`${name} slept`), () => outcomes.push(`${name} woke`)] as const;
    void first.sleep(1_000, abort.signal).then(...note("first"));
    void second.sleep(20).then(...note("second"));
    second.kill();
    abort.abort(new Error("enough"));
    await runFor(2_000);
    expect(outcomes).toEqual(["first woke"]);
  });
});
