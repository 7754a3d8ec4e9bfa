import { manualClock } from "@muster/runtime/internal";
import { describe, expect, it } from "vitest";
import { Hearing } from "../src/shards/hearing.ts";

const { signal } = new AbortController();
const question = { what: "taking version 3", timeoutMs: 100, signal };
const noAnswer = (): Promise<string> => new Promise(() => {});

/** Rank 0 of a replica of several processes. */
function asking() {
  const clock = manualClock();
  const hearing = new Hearing(clock);
  /** Asks, and lets the time for an answer pass. */
  const late = async (given = question): Promise<unknown> => {
    const asked = hearing.of(given, noAnswer).catch((error: unknown) => error);
    clock.advance(100);
    return await asked;
  };
  return { hearing, clock, late };
}

describe("a process that does not answer", () => {
  it("three times in a row ends the life of its replica, whatever it was asked", async () => {
    const { late } = asking();
    expect(await late()).toMatchObject({ code: "MUSTER_ERR_DEADLINE_EXPIRED" });
    expect(await late({ ...question, what: "meeting others" })).toMatchObject({ code: "MUSTER_ERR_DEADLINE_EXPIRED" });
    const stuck = { code: "MUSTER_ERR_WORK_STUCK", params: { what: "taking version 3", timeoutMs: 300 } };
    expect(await late()).toMatchObject(stuck);
  });

  it("counts also where the engine stops waiting for it sooner", async () => {
    const { hearing } = asking();
    const ask = () => hearing.of(question, () => Promise.reject(new Error("rank 1 says nothing")));
    for (let i = 0; i < 2; i++) await expect(ask()).rejects.toThrow("rank 1 says nothing");
    await expect(ask()).rejects.toMatchObject({ code: "MUSTER_ERR_WORK_STUCK" });
  });

  it("begins anew when it has answered, whatever it said", async () => {
    const { hearing, late } = asking();
    for (let i = 0; i < 2; i++) await late();
    expect(await hearing.of(question, async () => "it failed")).toBe("it failed");
    for (let i = 0; i < 2; i++) expect(await late()).toMatchObject({ code: "MUSTER_ERR_DEADLINE_EXPIRED" });
  });

  it("is not judged by what was given up meanwhile", async () => {
    const { hearing, late } = asking();
    for (let i = 0; i < 2; i++) await late();
    const givenUp = new AbortController();
    const asked = hearing.of(
      { ...question, signal: givenUp.signal },
      (ended) => new Promise((_, reject) => ended.addEventListener("abort", () => reject(ended.reason))),
    );
    givenUp.abort(new Error("other weights are wanted"));
    await expect(asked).rejects.toThrow("other weights are wanted");
    expect(await late()).toMatchObject({ code: "MUSTER_ERR_WORK_STUCK" });
  });
});
