import { beforeEach, describe, expect, it } from "vitest";
import type { Beats } from "../src/internal.ts";
import { LateBeats } from "../src/replica/late-beats.ts";

/** Heartbeats that note what they are told. */
function notingBeats(notes: string[]): Beats {
  const note = (text: string): void => void notes.push(text);
  return {
    progress: (amount = 1) => note(`progress ${amount}`),
    setVersion: (version) => note(`version ${version}`),
    setPhase: (phase) => note(`phase ${phase}`),
    setTerm: (term) => note(`term ${term}`),
    setEpoch: (epoch) => note(`epoch ${epoch}`),
    setEngine: ({ liveness, generation }) => note(`engine ${liveness} ${generation}`),
    stop: async () => note("stop"),
  };
}

describe("heartbeats that begin with admission", () => {
  let notes: string[];
  let late: LateBeats;
  beforeEach(() => {
    notes = [];
    late = new LateBeats();
  });

  it("have nobody to tell anything before they begin, and begin with the term that was heard meanwhile", () => {
    late.progress();
    late.setVersion(1);
    late.setPhase("pulling");
    late.setEpoch(1);
    late.setTerm(3);
    late.begin(() => notingBeats(notes));
    expect(notes).toEqual(["term 3"]);
  });

  it("are told everything from then on", async () => {
    late.begin(() => notingBeats(notes));
    late.progress();
    late.progress(5);
    late.setVersion(null);
    late.setPhase("idle");
    late.setTerm(4);
    late.setEpoch(2);
    await late.stop();
    const told = ["progress 1", "progress 5", "version null", "phase idle", "term 4", "epoch 2", "stop"];
    expect(notes).toEqual(["term 0", ...told]);
  });

  it("begin once, however often the replica is admitted", () => {
    let started = 0;
    const start = (): Beats => {
      started += 1;
      return notingBeats(notes);
    };
    late.begin(start);
    late.begin(start);
    late.setTerm(7);
    expect(started).toBe(1);
    expect(notes).toEqual(["term 0", "term 7"]);
  });

  it("need not have begun to be stopped", async () => {
    await expect(late.stop()).resolves.toBeUndefined();
    expect(notes).toEqual([]);
  });
});
