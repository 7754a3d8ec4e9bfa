/** What samplers show of their groups, and what of it a controller passes on. */
import type { Trajectory, TrajectoryGroup } from "@muster/protocol";
import { flawOf, samplesMax } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { PassedSamples } from "../src/controller/passed-samples.ts";
import { isShown, sampleOf } from "../src/rollout/samples.ts";

const config = { samples: { groups: 2, responses: 3, textChars: 20 } };
const task = { decode: (ids: Int32Array) => String.fromCharCode(...ids) };
const encode = (text: string) => Int32Array.from([...text].map((character) => character.charCodeAt(0)));
const trajectory = (text: string, patch: Partial<Trajectory> = {}): Trajectory => ({
  tokens: encode(`2+2=${text}`),
  promptLength: 4,
  logprobs: new Float32Array(text.length),
  lossMask: new Uint8Array(text.length).fill(1),
  reward: 1,
  status: "completed",
  segments: [{ version: 3, from: 0, to: text.length }],
  ...patch,
});
const aborted = trajectory("", { status: "aborted", reward: 0, error: { name: "TypeError", message: "no\nway" } });
const group = (index: number, trajectories: readonly Trajectory[]): TrajectoryGroup => ({
  ...{ groupId: `4.${index}`, step: 4, index, attempt: 1 },
  trajectories,
});
const at = { place: { streamSeq: 17 }, lineage: 1, version: 3 };

describe("what is shown of a group", () => {
  it("are its first responses, clipped, with rewards and errors", () => {
    const many = [trajectory("4"), aborted, trajectory("4".repeat(100)), trajectory("5")];
    const prompt = { ids: encode("2+2="), text: "two and two", answer: "four" };
    const body = sampleOf(group(1, many), prompt, at, { task, config });
    expect(body).toEqual({
      ...{ step: 4, index: 1, attempt: 1, streamSeq: 17, lineage: 1, version: 3 },
      ...{ prompt: "two and two", answer: "four" },
      responses: [
        { sample: 0, status: "completed", tokens: 1, reward: 1, text: "4" },
        { sample: 1, status: "aborted", tokens: 0, reward: null, text: "", error: "TypeError: no\nway" },
        { sample: 2, status: "completed", tokens: 100, reward: 1, text: `${"4".repeat(19)}…` },
      ],
    });
    expect(flawOf("samples.drawn", body)).toBeNull();
  });

  it("is the prompt as the model read it where the task can not say it again", () => {
    expect(sampleOf(group(0, [trajectory("4")]), null, at, { task, config }).prompt).toBe("2+2=");
  });

  it("depends on the prompt of the group, and on nothing else", () => {
    expect([0, 1, 2, 3].filter((index) => isShown({ index }, config))).toEqual([0, 1]);
    expect(isShown({ index: 0 }, { samples: { ...config.samples, groups: 0 } })).toBe(false);
  });
});

describe("a controller", () => {
  const drawn = (step: number, index: number, from = "rollout-0") => {
    const own = { ...group(index, [trajectory("4")]), step };
    return { kind: "samples.drawn", from, body: sampleOf(own, null, at, { task, config }) } as never;
  };
  const open = (nextStep: () => number = () => 10) => {
    const said: { readonly step: number; readonly index: number; readonly replica: string }[] = [];
    const passed = new PassedSamples({
      config,
      nextStep,
      say: (fact) => said.push(fact.body as never),
    });
    return { passed, said };
  };

  it("passes on what belongs to the steps that are being worked on, and says from whom it is", () => {
    const { passed, said } = open();
    for (const message of [
      drawn(10, 0),
      drawn(11, 1, "rollout-7"),
      drawn(7, 0),
      drawn(74, 1),
      drawn(75, 0),
      drawn(10, 2),
    ])
      expect(passed.take(message)).toBe(true);
    expect(said.map(({ step, index, replica }) => [step, index, replica])).toEqual([
      [10, 0, "rollout-0"],
      [11, 1, "rollout-7"],
      [74, 1, "rollout-0"],
    ]);
    expect(passed.take({ kind: "groups.held", from: "rollout-0", body: {} } as never)).toBe(false);
  });

  it("passes on a few of one group only, however often it is said", () => {
    const { passed, said } = open();
    for (let i = 0; i < 100; i++) passed.take(drawn(10, 0, `rollout-${i}`));
    expect(said).toHaveLength(4);
  });

  it("passes on as many of the oldest step of which it takes any, and counts anew once that is behind it and comes again", () => {
    let next = 10;
    const { passed, said } = open(() => next);
    for (let i = 0; i < 10; i++) passed.take(drawn(8, 0));
    passed.take(drawn(10, 1));
    passed.take(drawn(8, 0));
    expect(said.filter(({ step }) => step === 8)).toHaveLength(4);
    next = 11;
    passed.take(drawn(11, 0));
    // The job goes back.
    next = 10;
    for (let i = 0; i < 10; i++) passed.take(drawn(8, 0));
    expect(said.filter(({ step }) => step === 8)).toHaveLength(8);
  });

  it("takes no more than fits into a message, whatever is configured", () => {
    const most = { samples: { groups: 1, responses: samplesMax.responses, textChars: samplesMax.textChars } };
    const long = trajectory("\u0001".repeat(10_000));
    const body = sampleOf(group(0, Array(20).fill(long)), null, at, { task, config: most });
    expect(flawOf("samples.drawn", body)).toBeNull();
    expect(JSON.stringify(body).length).toBeLessThan(300_000);
  });
});
