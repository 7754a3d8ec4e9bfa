/** Samplers say what they compute with; the job remembers it, and tells of the first that draws other bits. */
import { engineKindsMax } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import type { ControllerState } from "../src/controller/state.ts";
import { applyHeld } from "../src/controller/weights/apply-weights.ts";
import { samplersOf } from "../src/controller/weights/sampler-engines.ts";
import { bodiesOf, memberOf, planWith, reportFrom, sectionsOf, working } from "./states.ts";

const samplers = ["r0", "r1", "r2"];
const job = (stalenessMax = 0): ControllerState =>
  working({ plan: planWith({ stalenessMax }), members: ["p0", ...samplers] });

/** Each holds the committed version and says its fingerprint; `null` says none. */
function held(state: ControllerState, said: readonly (readonly [id: string, fingerprint: string | null])[]) {
  const alarms: string[] = [];
  let after = state;
  for (const [id, fingerprint] of said) {
    const engine = fingerprint === null ? {} : { engine: { build: "b", fingerprint } };
    const version = { lineage: 0, version: 3, sections: sectionsOf(3).slice(0, 1) };
    const body = { ...version, addresses: [], bytes: 1, durationMs: 1, ...engine };
    const change = applyHeld(after, reportFrom(after, id, { kind: "weights.held", body }));
    after = change.state;
    alarms.push(...bodiesOf(change.effects, "alarm.raised").map(({ alarm, detail }) => `${alarm}: ${detail}`));
  }
  return { state: after, alarms };
}

const kind = (fingerprint: string, members: number) => ({ build: "b", fingerprint, members });

describe("what samplers compute with", () => {
  it("is counted by kind, for those that are there and say it", () => {
    const { state } = held(job(), [
      ["r0", "a"],
      ["r1", null],
      ["r2", "a"],
    ]);
    expect(samplersOf(state)).toEqual({ engines: [kind("a", 2)] });
    const { r0: _, ...members } = state.members;
    expect(samplersOf({ ...state, members })).toEqual({ engines: [kind("a", 1)] });
    expect(samplersOf(held(job(), [["r0", null]]).state)).toEqual({});
  });

  it("is an alarm once where one draws other bits, also when it comes back again and again", () => {
    const first = held(job(), [
      ["r0", "a"],
      ["r1", "b"],
    ]);
    expect(first.alarms).toEqual([expect.stringMatching(/^fingerprint: r1 .* is b, and theirs is a .* level L1/)]);
    const { r1: _, ...members } = first.state.members;
    const again = {
      ...first.state,
      members: { ...members, r1: memberOf("r1", 9, { held: { lineage: 0, version: 3 } }) },
    };
    const { state, alarms } = held(again, [
      ["r1", "b"],
      ["r2", "b"],
    ]);
    expect(alarms).toEqual([]);
    expect(samplersOf(state)).toEqual({ engines: [kind("a", 1), kind("b", 2)] });
  });

  it.each([1, 2])("is no alarm where the job trains on old weights, which promises no equal responses: %i", (stale) => {
    const { state, alarms } = held(job(stale), [
      ["r0", "a"],
      ["r1", "b"],
    ]);
    expect(alarms).toEqual([]);
    expect(samplersOf(state).engines).toHaveLength(2);
  });

  it("is what a sampler said first: nobody changes what it computes with while it lives", () => {
    const { state, alarms } = held(job(), [
      ["r0", "a"],
      ["r0", "b"],
    ]);
    expect(alarms).toEqual([]);
    expect(state.samplerEngines).toEqual([{ build: "b", fingerprint: "a" }]);
  });

  it("is heard from samplers only, and is remembered of so many kinds and no more", () => {
    expect(held(job(), [["p0", "a"]]).state).not.toHaveProperty("samplerEngines");
    const many = Array.from({ length: engineKindsMax + 3 }, (_, i) => [`r${i}`, `f${i}`] as const);
    const state = { ...job(), members: Object.fromEntries(many.map(([id], i) => [id, memberOf(id, i)])) };
    const { state: after, alarms } = held(state, many);
    expect(after.samplerEngines).toHaveLength(engineKindsMax);
    expect(alarms).toHaveLength(engineKindsMax - 1);
    expect(samplersOf(after).engines).toHaveLength(engineKindsMax);
  });
});
