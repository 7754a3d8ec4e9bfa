import { describe, expect, it } from "vitest";
import type { CheckpointInfo } from "../src/read.ts";
import { isBefore, newestFirst, planRetention, type RetentionRule } from "../src/retention.ts";

it("the newest checkpoint is the one of the highest lineage, then step, then version, then term, and then the last copy", () => {
  const of = (lineage: number, step: number, version: number, term: number, name: string) =>
    ({ lineage, step, version, term, name }) as CheckpointInfo;
  const newest = [
    of(2, 1, 1, 1, "a"),
    of(1, 9, 1, 1, "a"),
    of(1, 8, 8, 1, "a"),
    of(1, 8, 7, 9, "a"),
    of(1, 8, 7, 8, "b"),
    of(1, 8, 7, 8, "a"),
  ];
  for (const [i, a] of newest.entries())
    for (const [j, b] of newest.entries())
      if (i !== j) expect(Math.sign(newestFirst(a, b)), `${i} and ${j}`).toBe(Math.sign(i - j));
  expect(newest.toReversed().sort(newestFirst)).toEqual(newest);
});

describe("retention", () => {
  const info = (step: number, patch: Partial<CheckpointInfo> = {}) =>
    ({
      lineage: 0,
      step,
      version: step,
      term: 1,
      name: `s${step}`,
      manifestDigest: `d${step}`,
      ...patch,
    }) as CheckpointInfo;
  /** Steps 6 down to 1, newest first. */
  const six = [6, 5, 4, 3, 2, 1].map((step) => info(step));
  const gone = (rule: Partial<RetentionRule>, all = six) =>
    planRetention(all, { keep: 2, pinned: new Set<string>(), ...rule });

  it("removes all but the newest versions, the oldest first, and never the last one", () => {
    expect(gone({})).toEqual(["s1", "s2", "s3", "s4"]);
    expect(gone({ keep: 1 })).toEqual(["s1", "s2", "s3", "s4", "s5"]);
    expect(gone({ keep: 0 })).toEqual(["s1", "s2", "s3", "s4", "s5"]);
    expect(gone({ keep: 9 })).toEqual([]);
    expect(gone({}, [])).toEqual([]);
  });

  it("counts versions and not the copies that several writers made of one", () => {
    const copies = [info(6), info(6, { name: "s6b", term: 2 }), info(5), info(4)];
    expect(gone({}, copies)).toEqual(["s4"]);
    // Of another lineage, or of another version, it is no copy.
    expect(gone({}, [info(6, { lineage: 1 }), info(6), info(5)])).toEqual(["s5"]);
    expect(gone({}, [info(6), info(6, { name: "old", version: 5 }), info(5)])).toEqual(["s5"]);
  });

  it("leaves all from the oldest that is pinned on, and more of the older ones while nothing is pinned", () => {
    expect(gone({ pinned: new Set(["s4"]) })).toEqual(["s1", "s2", "s3"]);
    expect(gone({ pinned: new Set(["s5", "s3"]) })).toEqual(["s1", "s2"]);
    expect(gone({ pinned: new Set(["elsewhere"]) })).toEqual(["s1", "s2", "s3", "s4"]);
    expect(gone({ keepUnpinned: 4 })).toEqual(["s1", "s2"]);
    expect(gone({ keepUnpinned: 1 })).toEqual(["s1", "s2", "s3", "s4"]);
    expect(gone({ keepUnpinned: 4, pinned: new Set(["s6"]) })).toEqual(["s1", "s2", "s3", "s4"]);
  });

  it("leaves what is about to be reported, and all that is newer", () => {
    expect(gone({ saved: "s3" })).toEqual(["s1", "s2"]);
  });

  it("leaves one version however old it is, with every copy of it, and no other of its step or number", () => {
    expect(gone({ spared: { step: 2, version: 2 } })).toEqual(["s1", "s3", "s4"]);
    expect(gone({ spared: { step: 2, version: 3 } })).toEqual(["s1", "s2", "s3", "s4"]);
    expect(gone({ spared: { step: 3, version: 2 } })).toEqual(["s1", "s2", "s3", "s4"]);
    expect(gone({ spared: null })).toEqual(["s1", "s2", "s3", "s4"]);
  });

  it("removes what never came to count although it is newer than what is pinned, unless it is among the newest and there is room", () => {
    const superseded = [6, 4, 2].map((step) => ({ name: `s${step}`, manifestDigest: `d${step}` }));
    const rule = { pinned: new Set(["s3"]), superseded };
    expect(gone(rule)).toEqual(["s1", "s2", "s4"]);
    expect(gone({ ...rule, isFull: true })).toEqual(["s1", "s2", "s4", "s6"]);
    expect(gone({ ...rule, pinned: new Set(["s4", "s3"]) })).toEqual(["s1", "s2"]);
    expect(gone({ ...rule, pinned: new Set(["s3"]), saved: "s4" })).toEqual(["s1", "s2"]);
    expect(gone({ ...rule, spared: { step: 4, version: 4 } })).toEqual(["s1", "s2"]);
    const others = superseded.map(({ name }) => ({ name, manifestDigest: "another" }));
    expect(gone({ ...rule, superseded: others })).toEqual(["s1", "s2"]);
    const renamed = superseded.map(({ manifestDigest }) => ({ name: "another", manifestDigest }));
    expect(gone({ ...rule, superseded: renamed })).toEqual(["s1", "s2"]);
  });

  it("takes the tenth copy of a version for newer than the second", () => {
    const copies = ["", "-a2", "-a9", "-a10", "-a11"].map((attempt) => ({
      ...{ lineage: 0, step: 1, version: 1, term: 1, name: `step-00000001-v1-t1${attempt}` },
    })) as unknown as CheckpointInfo[];
    expect(copies.toSorted(newestFirst)).toEqual(copies.toReversed());
  });

  it("takes an older lineage, and an earlier step of the same one, for earlier", () => {
    const at = (lineage: number, step: number) => ({ lineage, step });
    expect([isBefore(at(0, 9), at(1, 1)), isBefore(at(1, 1), at(0, 9))]).toEqual([true, false]);
    expect([isBefore(at(1, 1), at(1, 2)), isBefore(at(1, 2), at(1, 2)), isBefore(at(1, 3), at(1, 2))]).toEqual([
      ...[true, false, false],
    ]);
  });
});
