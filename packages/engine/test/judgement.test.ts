/** What a reward may answer beside its number: kept with the trajectory within bounds, refused by name beyond them, and never at the cost of another one. */
import { judgementLimits, numberOfAnswer, type RewardAnswer } from "@muster/base";
import { taskOf } from "@muster/data";
import { fromGroupsBatch, pack, readPiecedBody, type TrajectoryGroup, toGroupsBatch } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { responsesOfEpisode } from "../src/agent/episode-responses.ts";
import { batchFiguresOf, collectGroups } from "../src/index.ts";
import { rewardIn } from "../src/rewards/reward-wire.ts";
import { clock, openRollout, quiet } from "./rollout-fixture.ts";

const task = taskOf("addition");
const { components: componentsMax, nameChars, metadataBytes } = judgementLimits;

/** Two groups of four, whose trajectories are judged one after the other with these answers; the rest is 1. */
async function judgedWith(...answers: readonly unknown[]): Promise<readonly TrajectoryGroup["trajectories"][number][]> {
  let calls = 0;
  const groups = await collectGroups({
    ...{ engine: await openRollout(), task, groupSize: 4, seed: 1, step: 3, version: 1, clock, signal: quiet() },
    reward: { name: "made up", score: async () => (calls < answers.length ? answers[calls++] : 1) as RewardAnswer },
    prompts: [0, 1].map((index) => ({ index, attempt: 0, prompt: { ids: Int32Array.of(1, 2), text: "", answer: "" } })),
    sampling: { temperature: 1, maxNewTokens: 4, stopTokenIds: [0] },
    rewardTimeoutMs: 10_000,
  });
  const back = readPiecedBody("groups.batch", pack(toGroupsBatch(groups)));
  if (back.kind !== "groups.batch") throw new Error("it came back as something else");
  expect(fromGroupsBatch(back.body)).toEqual(groups);
  return groups.flatMap(({ trajectories }) => trajectories);
}

const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, i]));
const filling = (bytes: number) => ({ why: "x".repeat(bytes - '{"why":""}'.length) });

describe("components and metadata of a reward", () => {
  it("are stored with their trajectory, the components by name, and come through the groups stream", async () => {
    const [first, second] = await judgedWith(
      { reward: 0.75, components: { right: 0.5, form: 0.25 }, metadata: { judge: "7b", spän: [1, null] } },
      { reward: 1, components: {}, metadata: undefined },
    );
    expect(first).toMatchObject({
      ...{ reward: 0.75, status: expect.not.stringMatching("aborted"), metadata: '{"judge":"7b","spän":[1,null]}' },
      components: [
        { name: "form", value: 0.25 },
        { name: "right", value: 0.5 },
      ],
    });
    expect(second).toMatchObject({ reward: 1 });
    expect(second).not.toHaveProperty("components");
    expect(second).not.toHaveProperty("metadata");
  });

  it("may be as many, as long and as large as their bounds say", async () => {
    const [first, second] = await judgedWith(
      { reward: 1, components: many(componentsMax), metadata: filling(metadataBytes) },
      { reward: 1, components: { ["n".repeat(nameChars)]: -1e9 } },
    );
    expect(first?.components).toHaveLength(componentsMax);
    expect(first?.metadata).toHaveLength(metadataBytes);
    expect(second?.components).toEqual([{ name: "n".repeat(nameChars), value: -1e9 }]);
  });

  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  it.each<[string, unknown, RegExp]>([
    [
      "a component that is no number",
      { reward: 1, components: { form: "good" } },
      /components\.form with good.* it must be a number/,
    ],
    ["a component that is NaN", { reward: 1, components: { form: Number.NaN } }, /components\.form with NaN/],
    [
      "a component without end",
      { reward: 1, components: { form: Number.POSITIVE_INFINITY } },
      /components\.form with Infinity/,
    ],
    [
      "too many components",
      { reward: 1, components: many(componentsMax + 1) },
      /components with 17 of them; it must be at most 16/,
    ],
    [
      "components in a list",
      { reward: 1, components: [1, 2] },
      /components with .* it must be an object of numbers by name/,
    ],
    [
      "a name that is too long",
      { reward: 1, components: { ["n".repeat(nameChars + 1)]: 1 } },
      /components with n{49}; it must be names of at most 48/,
    ],
    ["a name with a line in it", { reward: 1, components: { "a\nb": 1 } }, /it must be names of at most 48/],
    [
      "metadata that are too large",
      { reward: 1, metadata: filling(metadataBytes + 1) },
      /metadata with 2049 bytes; it must be an object of at most 2048/,
    ],
    ["metadata of large characters", { reward: 1, metadata: { why: "答".repeat(700) } }, /metadata with 2110 bytes/],
    ["metadata that are a text", { reward: 1, metadata: "all of it" }, /metadata with all of it; it must be an object/],
    ["metadata that are no JSON", { reward: 1, metadata: cyclic }, /metadata with what is no JSON .*circular/],
    ["metadata that become something else", { reward: 1, metadata: { toJSON: () => "text" } }, /metadata with "text"/],
    ["a field that is not known", { reward: 1, component: { form: 1 } }, /component with .* left out/],
    [
      "no number",
      { reward: "1", components: {} },
      /returned 1, a value of type string|returned .*; it must return a number/,
    ],
    ["NaN as its number", { reward: Number.NaN }, /returned NaN/],
  ])("cost their trajectory and no other with %s", async (_, answer, says) => {
    const [first, ...rest] = await judgedWith(answer, { reward: 0.5, components: { form: 1 } });
    expect(first).toMatchObject({ status: "aborted", reward: 0, error: { message: expect.stringMatching(says) } });
    expect(first?.error?.message).toContain('reward "made up"');
    expect(first).not.toHaveProperty("components");
    expect(rest.filter(({ status }) => status === "aborted")).toEqual([]);
    expect(rest[0]).toMatchObject({ reward: 0.5, components: [{ name: "form", value: 1 }] });
  });

  it("come from programs and services beside the number, and what else these say is left aside", () => {
    const said = { id: 4, reward: 1, components: { form: 1 }, metadata: null, model: "judge" };
    expect(rewardIn(said, "it")).toEqual({ reward: 1, components: { form: 1 } });
    expect(rewardIn({ reward: 0.5, why: "short" }, "it")).toBe(0.5);
    expect([0.5, { reward: 2 }].map(numberOfAnswer)).toEqual([0.5, 2]);
  });
});

describe("the figures of components in a batch", () => {
  const trajectory = (components?: Readonly<Record<string, number>>): TrajectoryGroup["trajectories"][number] => ({
    ...{ tokens: new Int32Array(3), promptLength: 2, logprobs: new Float32Array(1), lossMask: Uint8Array.of(1) },
    ...{ reward: 1, status: "completed", segments: [{ version: 0, from: 0, to: 1 }] },
    ...(components ? { components: Object.entries(components).map(([name, value]) => ({ name, value })) } : {}),
  });
  const groupOf = (index: number, ...trajectories: TrajectoryGroup["trajectories"]): TrajectoryGroup => ({
    ...{ groupId: `3.${index}`, step: 3, index, attempt: 0, trajectories },
  });

  it("are of those that have them, in order of their names, whoever came first", () => {
    const groups = [
      groupOf(1, trajectory({ form: 1, right: 0 }), trajectory({ form: 0 })),
      groupOf(0, trajectory(), trajectory({ right: 1 })),
    ];
    const { components, componentsMore } = batchFiguresOf(groups);
    expect(components).toEqual([
      { name: "form", count: 2, mean: 0.5, squares: 0.5, least: 0, most: 1 },
      { name: "right", count: 2, mean: 0.5, squares: 0.5, least: 0, most: 1 },
    ]);
    expect(componentsMore).toBeUndefined();
    expect(batchFiguresOf([...groups].reverse())).toEqual(batchFiguresOf(groups));
    expect(batchFiguresOf([groupOf(0, trajectory(), trajectory())])).not.toHaveProperty("components");
  });

  it("are told of a bounded number of names, and of how many there are beyond", () => {
    const groups = Array.from({ length: 40 }, (_, i) =>
      groupOf(i, trajectory({ [`n${String(i).padStart(2, "0")}`]: 1 }), trajectory()),
    );
    const { components, componentsMore } = batchFiguresOf(groups);
    expect(components?.map(({ name }) => name)).toEqual(
      Array.from({ length: 32 }, (_, i) => `n${String(i).padStart(2, "0")}`),
    );
    expect(componentsMore).toBe(8);
  });
});

it("what an agent says of its reward is kept with each trajectory of its episode", () => {
  const said = { reward: 0.5, components: { form: 0.25 }, metadata: { tries: 2 } };
  const sample = { tokens: [1, 2], promptLength: 1, lossMask: [1], logprobs: [-1], versions: ["3"] };
  const outcome = { turns: 1, reward: said, finish: "stop" as const, samples: [sample], messages: [] };
  const both = responsesOfEpisode(outcome, { reward: "session", fanOut: 2 });
  expect(both).toEqual([expect.objectContaining({ reward: said }), expect.objectContaining({ reward: said })]);
});
