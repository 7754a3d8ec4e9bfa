import type { AnyMessage } from "@muster/protocol";
import { createEnveloper, type ManualClock, manualClock } from "@muster/runtime";
import { beforeEach, describe, expect, it } from "vitest";
import { type MemberWatch, watchMembers } from "../src/controller/watch-members.ts";

const timing = { suspectAfterMs: 300, deadAfterMs: 1_000 };
const member = { id: "rollout-0", incarnation: "i1" };

describe("the watch over the members", () => {
  let clock: ManualClock;
  let watch: MemberWatch;
  const newVoice = (incarnation: string) =>
    createEnveloper({ job: "job", id: member.id, role: "rollout", incarnation, wallMs: () => 0 });
  let voice: ReturnType<typeof newVoice>;
  const beat = (from = voice): AnyMessage =>
    from.stamp("heartbeat.beat", { version: 2, phase: "idle", progress: 0, loopLagMs: 0, rssBytes: 1 });
  const typesNow = (): readonly string[] => watch.verdicts([member]).map(({ type }) => type);

  beforeEach(() => {
    clock = manualClock();
    watch = watchMembers(clock, timing);
    voice = newVoice(member.incarnation);
    watch.verdicts([member]);
  });

  it("says nothing of a member that is heard", () => {
    for (let i = 0; i < 20; i++) {
      watch.heard(beat());
      clock.advance(200);
      expect(typesNow()).toEqual([]);
    }
  });

  it("suspects a silent member once, then takes it for dead, at the time of its own clock", () => {
    watch.heard(beat());
    clock.advance(300);
    expect(watch.verdicts([member])).toEqual([
      { type: "verdict.suspect", ...member, evidence: "no heartbeat for 300 ms", atMs: 300 },
    ]);
    clock.advance(100);
    expect(typesNow()).toEqual([]);
    clock.advance(600);
    expect(watch.verdicts([member])).toEqual([
      { type: "verdict.dead", ...member, evidence: "no heartbeat for 1000 ms", atMs: 1_000 },
    ]);
  });

  it("takes a suspicion back when the member is heard again", () => {
    watch.heard(beat());
    clock.advance(400);
    expect(typesNow()).toEqual(["verdict.suspect"]);
    watch.heard(beat());
    expect(typesNow()).toEqual(["verdict.recover"]);
    expect(typesNow()).toEqual([]);
  });

  it("accuses nobody for a silence in which the broker was away", () => {
    watch.heard(beat());
    clock.advance(5_000);
    watch.blinded();
    expect(typesNow()).toEqual([]);
    clock.advance(299);
    expect(typesNow()).toEqual([]);
    clock.advance(1);
    expect(typesNow()).toEqual(["verdict.suspect"]);
    clock.advance(700);
    expect(typesNow()).toEqual(["verdict.dead"]);
  });

  it("takes only heartbeats for signs of life", () => {
    watch.heard(beat());
    clock.advance(400);
    watch.heard(voice.stamp("mesh.built", { epoch: 1 }));
    expect(typesNow()).toEqual(["verdict.suspect"]);
  });

  it("takes no beat of another life for a sign of this one", () => {
    watch.heard(beat());
    clock.advance(400);
    watch.heard(beat(newVoice("i0")));
    expect(typesNow()).toEqual(["verdict.suspect"]);
  });

  it("shows the latest beat of each member with its time, and forgets those who are gone", () => {
    watch.heard(beat());
    clock.advance(250);
    watch.heard(beat());
    watch.verdicts([member]);
    expect(watch.beats().get(member.id)).toMatchObject({ incarnation: "i1", version: 2, phase: "idle", atMs: 250 });
    expect(watch.verdicts([])).toEqual([]);
    expect([...watch.beats().keys()]).toEqual([]);
  });
});
