/** Connections to the broker that end again and again. */
import { describe, expect, it } from "vitest";
import { Watcher } from "./watcher.ts";

/** The broker is away for `awayMs` after each `everyMs`, `times` times; `beating` are heard while it is there. */
function flap(
  watcher: Watcher,
  { everyMs, awayMs, times }: { readonly everyMs: number; readonly awayMs: number; readonly times: number },
  beating: readonly string[],
): void {
  for (let i = 0; i < times; i++) {
    watcher.pass(everyMs - awayMs, beating);
    watcher.detector.lost(watcher.nowMs);
    watcher.nowMs += awayMs;
    watcher.detector.blinded(watcher.nowMs);
  }
}

describe("a controller whose connection to the broker ends again and again", () => {
  it.each([
    ["every two seconds, for one", 2_000, 1_000],
    ["every five seconds, for one", 5_000, 1_000],
    ["every ten seconds, for three", 10_000, 3_000],
    ["every hundred seconds, for five", 100_000, 5_000],
  ])("finds the dead all the same: %s", (_, everyMs, awayMs) => {
    const watcher = new Watcher(["p0", "c0", "r0", "r1"]);
    watcher.pass(5_000, ["p0", "c0", "r0", "r1"]);
    const rest = ["p0", "r1"];
    flap(watcher, { everyMs, awayMs, times: Math.ceil(400_000 / everyMs) }, rest);
    expect(watcher.members.map(({ id }) => id)).toEqual(rest);
    expect(watcher.said).toEqual(expect.arrayContaining(["r0 dead silence", "c0 dead silence"]));
  });

  it("says so, once in a while", () => {
    const watcher = new Watcher(["p0"]);
    flap(watcher, { everyMs: 10_000, awayMs: 1_000, times: 3 }, ["p0"]);
    watcher.pass(1_000, ["p0"]);
    expect(watcher.outages).toEqual([]);
    flap(watcher, { everyMs: 10_000, awayMs: 1_000, times: 60 }, ["p0"]);
    const said = expect.stringMatching(/^the controller's connection to the broker ended \d+ times within 300 s: /);
    expect(watcher.outages).toEqual([said, said]);
    expect(watcher.said.filter((line) => line.includes("dead"))).toEqual([]);
  });

  it("counts no outage for anybody's silence, however long it is, also where it forgives no more", () => {
    const watcher = new Watcher(["p0", "p1"]);
    flap(watcher, { everyMs: 2_000, awayMs: 1_000, times: 4 }, ["p0", "p1"]);
    flap(watcher, { everyMs: 41_000, awayMs: 40_000, times: 1 }, ["p0", "p1"]);
    expect(watcher.pass(3_000, ["p1"])).toEqual([]);
    expect(watcher.pass(2_000, ["p1"])).toEqual(["p0 suspect silence"]);
  });

  it("forgives few outages in full", () => {
    const watcher = new Watcher(["p0", "p1"]);
    watcher.pass(5_000, ["p0", "p1"]);
    flap(watcher, { everyMs: 9_000, awayMs: 1_000, times: 3 }, ["p0"]);
    expect(watcher.said.filter((line) => line.includes("dead"))).toEqual([]);
    watcher.pass(9_800, ["p0"]);
    expect(watcher.said.filter((line) => line.includes("dead"))).toEqual([]);
    expect(watcher.outages).toEqual([]);
  });
});

describe("a member whose connection to the broker ends again and again", () => {
  const drop = (watcher: Watcher, times: number, ids: readonly string[] = ["r0"]): void => {
    for (let i = 0; i < times; i++) {
      for (const id of ids) watcher.detector.disconnected(id, "i1", watcher.nowMs);
      watcher.pass(
        5_000,
        watcher.members.map(({ id }) => id),
      );
    }
  };
  const dead = (watcher: Watcher) => watcher.said.filter((line) => line.includes("dead"));

  it("is named to the operator, and evicted at the tenth time", () => {
    const watcher = new Watcher(["p0", "r0", "r1"]);
    watcher.pass(5_000, ["p0", "r0", "r1"]);
    drop(watcher, 3);
    expect(watcher.outages).toEqual([]);
    drop(watcher, 6);
    expect(watcher.outages).toEqual([
      expect.stringMatching(/^the connection of r0 to the broker ended \d+ times within 300 s: look at its host/),
    ]);
    expect(dead(watcher)).toEqual([]);
    watcher.detector.disconnected("r0", "i1", watcher.nowMs);
    expect(watcher.look()).toEqual(expect.arrayContaining(["r0 dead disconnect"]));
    expect(watcher.last.verdicts.at(-1)?.silentMs).toBe(0);
    expect(watcher.last.verdicts.at(-1)?.evidence).toBe(
      "its connection to the broker ended 10 times within 300 s, while others stay connected: look at its host and its network",
    );
    expect(watcher.members.map(({ id }) => id)).toEqual(["p0", "r1"]);
  });

  it("is named once in a while, and lives, where nobody else has its role", () => {
    const watcher = new Watcher(["p0", "r0"]);
    watcher.pass(5_000, ["p0", "r0"]);
    drop(watcher, 103);
    const said = expect.stringMatching(/^the connection of r0 to the broker ended \d+ times within 300 s: look at its/);
    expect(watcher.outages).toEqual([said, said]);
    expect(dead(watcher)).toEqual([]);
  });

  it("lives where the connections of half of the others end as well, or that of the controller: that is an outage", () => {
    const ids = ["p0", "p1", "r0", "r1", "r2"];
    const many = new Watcher(ids);
    many.pass(5_000, ids);
    drop(many, 60, ["r0", "r1", "p0"]);
    expect(dead(many)).toEqual([]);
    const own = new Watcher(ids);
    own.pass(5_000, ids);
    for (let i = 0; i < 60; i++) {
      flap(own, { everyMs: 3_000, awayMs: 1_000, times: 1 }, ids);
      drop(own, 1);
    }
    expect(dead(own)).toEqual([]);
  });

  it.each([
    [
      "lives where exactly half of the others have trouble as well",
      ["p0", "p1", "r0", "r1", "r2"],
      ["r0", "r1", "p0"],
      [],
    ],
    ["is evicted where a third of them has", ["p0", "r0", "r1", "r2"], ["r0", "p0"], ["r0 dead disconnect"]],
  ])("%s, also one after the other", (_, ids, troubled, expected) => {
    const watcher = new Watcher(ids);
    watcher.pass(5_000, ids);
    // The first of them is ahead of the others by one end, and never are enough of them suspects to pull the brake.
    for (let i = 0; i < 10; i++)
      for (const id of troubled) {
        watcher.detector.disconnected(id, "i1", watcher.nowMs);
        watcher.pass(
          2_000,
          watcher.members.map((member) => member.id),
        );
      }
    expect(watcher.alarms).toEqual([]);
    expect(dead(watcher)).toEqual(expected);
  });

  it("is not named for ends that are far apart, and not evicted", () => {
    const watcher = new Watcher(["p0", "r0", "r1"]);
    for (let i = 0; i < 12; i++) {
      drop(watcher, 1);
      watcher.pass(100_000, ["p0", "r0", "r1"]);
    }
    expect(watcher.outages).toEqual([]);
    expect(dead(watcher)).toEqual([]);
  });
});
