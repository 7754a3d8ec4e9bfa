import { noMetrics } from "@muster/base";
import { type DetectorTiming, FailureDetector, type Watched } from "@muster/machines";
import { type AnyMessage, type Body, createEnveloper } from "@muster/protocol";
import { type ManualClock, manualClock } from "@muster/runtime/internal";
import { createMetrics } from "@muster/runtime/metrics";
import { beforeEach, describe, expect, it } from "vitest";
import { type MemberWatch, watchMembers } from "../src/controller/watch-members.ts";

const timing: DetectorTiming = {
  intervalMs: 1_000,
  pauseMs: 3_000,
  phiMax: 8,
  missedMax: 5,
  deadAfterMs: { policy: 10_000, rollout: 10_000, checkpoint: 10_000, node: 10_000 },
  probes: 3,
  probeTimeoutMs: 1_000,
  hungMinMs: 20_000,
  hungMaxMs: 45_000,
  graceMs: 600_000,
  failuresMax: 3,
};
const member: Watched = { id: "rollout-0", incarnation: "i1", role: "rollout" };
const rest = { version: 2, phase: "idle", progress: 0, loopLagMs: 0, rssBytes: 1 };

describe("the watch over the members", () => {
  let clock: ManualClock;
  let watch: MemberWatch;
  const newVoice = (incarnation: string, id = member.id) =>
    createEnveloper({ job: "job", id, role: "rollout", incarnation, wallMs: () => 0 });
  let voice: ReturnType<typeof newVoice>;
  const beat = (from = voice, patch: Partial<Body<"heartbeat.beat">> = {}): AnyMessage =>
    from.stamp("heartbeat.beat", { ...rest, ...patch });
  const typesNow = (): readonly string[] => watch.look([member]).verdicts.map(({ type }) => type);

  beforeEach(() => {
    clock = manualClock();
    watch = watchMembers(clock, timing, noMetrics);
    voice = newVoice(member.incarnation);
    watch.look([member]);
    watch.heard(beat());
  });

  it("says nothing of a member that is heard", () => {
    for (let i = 0; i < 20; i++) {
      watch.heard(beat());
      clock.advance(1_000);
      expect(typesNow()).toEqual([]);
    }
  });

  it("suspects a silent member once, at the time of its own clock, and asks it", () => {
    clock.advance(5_000);
    const { verdicts, probes } = watch.look([member]);
    const { id, incarnation } = member;
    const found = {
      type: "verdict.suspect",
      kind: "silence",
      silentMs: 5_000,
      evidence: "no sign of life for 5000 ms",
    };
    expect(verdicts).toEqual([{ ...found, id, incarnation, atMs: 5_000 }]);
    expect(probes).toEqual([{ id, incarnation, nonce: 1 }]);
    clock.advance(100);
    expect(typesNow()).toEqual([]);
  });

  it.each(["thread", "loop"] as const)("takes the answer of the %s to a probe for a sign of life", (by) => {
    clock.advance(5_000);
    const [probe] = watch.look([member]).probes;
    watch.heard(voice.stamp("probe.answered", { nonce: probe?.nonce ?? -1, by }));
    expect(typesNow()).toEqual(["verdict.recover"]);
  });

  it("takes the broker's word on an ended connection, of the member itself or of its heartbeats", () => {
    watch.disconnected("rollout.rollout-0.i0");
    watch.disconnected("watch-disconnects");
    expect(typesNow()).toEqual([]);
    watch.disconnected("rollout.rollout-0.i1.hb");
    expect(typesNow()).toEqual(["verdict.suspect"]);
  });

  it("takes a vote that names missing members for evidence", () => {
    clock.advance(2_000);
    const vote = {
      step: 1,
      attempt: 1,
      epoch: 1,
      vote: "abort",
      finite: true,
      sections: [],
      missing: [member.id],
    } as const;
    const body = { ...vote, sections: [], missing: [...vote.missing] };
    watch.reported(newVoice("i9", "policy-0").stamp("step.voted", body));
    expect(watch.look([member]).verdicts).toMatchObject([{ type: "verdict.suspect", kind: "peers" }]);
  });

  it("counts no time in which the broker was away as silence, also where it is away too often for more", () => {
    for (let i = 0; i < 20; i++) {
      watch.connection("disconnected");
      clock.advance(1_000);
      watch.connection("reconnected");
      watch.heard(beat());
    }
    watch.connection("disconnected");
    clock.advance(15_000);
    watch.connection("reconnected");
    expect(typesNow()).toEqual([]);
    clock.advance(30_000);
    expect(typesNow()).not.toEqual([]);
  });

  it("believes no beat, answer or blame under the name of another role's member", () => {
    const trainer: Watched = { id: "policy-0", incarnation: "i9", role: "policy" };
    watch.look([member, trainer]);
    const own = createEnveloper({ job: "job", id: "policy-0", role: "policy", incarnation: "i9", wallMs: () => 0 });
    watch.heard(own.stamp("heartbeat.beat", rest));
    clock.advance(2_000);
    // Its role is "rollout".
    const forger = newVoice("i9", "policy-0");
    watch.reported(forger.stamp("mesh.failed", { epoch: 1, cause: "torn", missing: [member.id] }));
    expect(watch.look([member, trainer]).verdicts).toEqual([]);
    clock.advance(3_000);
    watch.heard(beat());
    watch.heard(beat(forger));
    expect(watch.look([member, trainer]).verdicts).toMatchObject([{ type: "verdict.suspect", id: "policy-0" }]);
  });

  it("takes a mesh that could not be built for evidence against the members that it names, and no other report", () => {
    clock.advance(2_000);
    const trainer = newVoice("i9", "policy-0");
    watch.reported(trainer.stamp("step.skipped" as never, { missing: [member.id] } as never));
    expect(typesNow()).toEqual([]);
    watch.reported(trainer.stamp("mesh.failed", { epoch: 1, cause: "torn", missing: [member.id] }));
    expect(watch.look([member]).verdicts).toMatchObject([{ type: "verdict.suspect", kind: "peers" }]);
  });

  it("shows the level of suspicion as it is for a watcher that is as well as this one", async () => {
    const metrics = createMetrics();
    watch = watchMembers(clock, timing, metrics);
    const detector = new FailureDetector(timing);
    watch.look([member]);
    detector.look([member], { nowMs: clock.now(), factor: 1 });
    const { phase, progress, loopLagMs } = rest;
    for (let i = 0; i < 4; i++) {
      const message = beat();
      watch.heard(message);
      const { from: id, incarnation, seq } = message;
      detector.beat({ id, incarnation, seq, phase, progress, loopLagMs, failures: 0 }, clock.now());
      clock.advance(1_000);
    }
    clock.advance(4_000);
    watch.observed({ loopLagMs: 0, timerLateMs: 0, brokerRttMs: 0 });
    const shown = Number(/^muster_detector_phi (.+)$/m.exec(await metrics.render())?.[1]);
    expect(shown).toBeGreaterThan(0);
    expect(shown).toBe(detector.highestPhi(clock.now(), 1));
  });

  it("shows no lag of a loop while nobody was heard", async () => {
    const metrics = createMetrics();
    watchMembers(clock, timing, metrics).observed({ loopLagMs: 0, timerLateMs: 0, brokerRttMs: 0 });
    expect(await metrics.render()).toMatch(/^muster_detector_loop_lag_ms 0$/m);
  });

  it("takes failed health checks of an engine for what they are, the worse of both streaks", () => {
    watch.heard(beat(voice, { engine: { liveness: 0, generation: 1 } }));
    expect(watch.look([member]).verdicts).toMatchObject([{ type: "verdict.suspect", kind: "engine" }]);
    watch.heard(beat(voice, { engine: { liveness: 3, generation: 0 } }));
    expect(watch.look([member]).verdicts).toMatchObject([{ type: "verdict.dead", kind: "engine" }]);
  });

  it("accuses nobody for a silence in which the broker was away", () => {
    clock.advance(60_000);
    watch.connection("reconnected");
    expect(typesNow()).toEqual([]);
    clock.advance(4_000);
    expect(typesNow()).toEqual([]);
    clock.advance(1_000);
    expect(typesNow()).toEqual(["verdict.suspect"]);
  });

  it("gives everybody more time while this process itself is slow", () => {
    const slow = { loopLagMs: 900, timerLateMs: 900, brokerRttMs: 3 };
    watch.observed(slow);
    clock.advance(5_000);
    expect(typesNow()).toEqual([]);
    clock.advance(5_000);
    expect(typesNow()).toEqual(["verdict.suspect"]);
  });

  it("takes only heartbeats and answers for signs of life, and no word of another life", () => {
    clock.advance(4_900);
    watch.heard(voice.stamp("mesh.built", { epoch: 1 }));
    watch.heard(beat(newVoice("i0")));
    clock.advance(100);
    expect(typesNow()).toEqual(["verdict.suspect"]);
  });

  it("shows the latest beat of each member with its time, and forgets those who are gone", () => {
    clock.advance(250);
    watch.heard(beat());
    watch.look([member]);
    expect(watch.beats().get(member.id)).toMatchObject({ incarnation: "i1", version: 2, phase: "idle", atMs: 250 });
    expect(watch.look([]).verdicts).toEqual([]);
    expect([...watch.beats().keys()]).toEqual([]);
  });

  it("forgets those who are gone also where others have come, who were not heard yet", () => {
    watch.look([{ ...member, id: "rollout-1", incarnation: "i2" }]);
    expect([...watch.beats().keys()]).toEqual([]);
  });

  it("counts who hangs, which is no suspicion", async () => {
    const metrics = createMetrics();
    watch = watchMembers(clock, timing, metrics);
    watch.look([member]);
    for (let second = 0; second < 60; second++) {
      watch.heard(beat(voice, { phase: "computing", progress: 1 }));
      clock.advance(1_000);
      watch.look([member]);
    }
    const text = await metrics.render();
    expect(text).toMatch(/muster_detector_hung_total 1\b/);
    expect(text).not.toMatch(/muster_detector_suspect_total.* [1-9]/);
  });

  it("counts suspicions and evictions by kind, and lives that speak again after they were evicted", async () => {
    const metrics = createMetrics();
    watch = watchMembers(clock, timing, metrics);
    watch.look([member]);
    watch.heard(beat());
    for (let second = 0; second < 31; second++) {
      clock.advance(1_000);
      watch.look([member]);
    }
    watch.heard(beat());
    watch.heard(beat());
    watch.observed({ loopLagMs: 0, timerLateMs: 0, brokerRttMs: 1 });
    const text = await metrics.render();
    expect(text).toMatch(/muster_detector_suspect_total\{kind="silence"\} 1/);
    expect(text).toMatch(/muster_detector_evict_total\{reason="silence"\} 1/);
    expect(text).toMatch(/muster_detector_evict_false_total 1/);
    expect(text).toMatch(/muster_detector_phi /);
    expect(text).not.toMatch(/muster_detector_hung_total [1-9]/);
  });
});

describe("lives that were evicted and speak again", () => {
  /** Of six hundred members the first ones fall silent, one each second, until all of those are evicted. */
  function evictMembers(count: number) {
    const clock = manualClock();
    const metrics = createMetrics();
    const watch = watchMembers(clock, timing, metrics);
    const ids = Array.from({ length: 600 }, (_, i) => `rollout-${i}`);
    const voices = ids.map((id) =>
      createEnveloper({ job: "job", id, role: "rollout", incarnation: `${id}-1`, wallMs: () => 0 }),
    );
    const beatOf = (i: number) => watch.heard(voices[i]?.stamp("heartbeat.beat", rest) as AnyMessage);
    let members = ids.map((id) => ({ id, incarnation: `${id}-1`, role: "rollout" as const }));
    watch.look(members);
    for (let second = 0; members.length > 600 - count && second < 600; second++) {
      for (let i = Math.min(second, count); i < 600; i++) beatOf(i);
      const dead = watch.look(members).verdicts.flatMap(({ type, id }) => (type === "verdict.dead" ? [id] : []));
      members = members.filter(({ id }) => !dead.includes(id));
      clock.advance(1_000);
    }
    expect(members[0]?.id).toBe(`rollout-${count}`);
    const counted = async () =>
      Number(/^muster_detector_evict_false_total (\d+)/m.exec(await metrics.render())?.[1] ?? 0);
    return { clock, beatOf, counted };
  }

  it("count as evicted wrongly within ten minutes, and not after", async () => {
    const { clock, beatOf, counted } = evictMembers(2);
    clock.advance(590_000);
    beatOf(0);
    expect(await counted()).toBe(1);
    clock.advance(11_000);
    beatOf(1);
    expect(await counted()).toBe(1);
  });

  it("are remembered, the last 256 of them", async () => {
    const { beatOf, counted } = evictMembers(257);
    beatOf(0);
    expect(await counted()).toBe(0);
    beatOf(1);
    expect(await counted()).toBe(1);
  });
});

it("shows on the page the longest lag of a loop, how ill it is itself, and whether its view is bad", async () => {
  const clock = manualClock();
  const metrics = createMetrics();
  const watch = watchMembers(clock, timing, metrics);
  const names = ["rollout-0", "rollout-1"] as const;
  const members = names.map((id) => ({ ...member, id }));
  const voices = names.map((id) =>
    createEnveloper({ job: "job", id, role: "rollout", incarnation: "i1", wallMs: () => 0 }),
  );
  const shown = async (): Promise<Record<string, number>> => {
    const lines = (await metrics.render())
      .split("\n")
      .flatMap((line) => /^muster_detector_(\w+) (.+)$/.exec(line) ?? []);
    return Object.fromEntries(
      Array.from({ length: lines.length / 3 }, (_, i) => [lines[3 * i + 1], Number(lines[3 * i + 2])]),
    );
  };
  const well = { loopLagMs: 0, timerLateMs: 0, brokerRttMs: 0 };
  watch.look(members);
  for (const [i, voice] of voices.entries()) watch.heard(voice.stamp("heartbeat.beat", { ...rest, loopLagMs: 70 - i }));
  watch.observed(well);
  expect(await shown()).toMatchObject({ loop_lag_ms: 70, local_health: 0, view_suspect: 0 });
  watch.connection("disconnected");
  clock.advance(4_000);
  watch.connection("reconnected");
  watch.observed({ ...well, timerLateMs: 4_000 });
  expect(await shown()).toMatchObject({ local_health: 1, view_suspect: 1 });
});
