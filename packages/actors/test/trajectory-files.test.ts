/** Files of trajectories: what is read is what was written, and a bad file costs nothing but itself. */
import { mkdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type JobConfig, type TrajectoryGroup, toGroupsBatch } from "@muster/protocol";
import { makeTempDirectory } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadTrajectories, scanTrajectories, writeTrajectories, writtenIn } from "../src/trajectories/files.ts";
import { bytesOfGroup, encodeTrajectories, headBytesMax, sourceOf } from "../src/trajectories/format.ts";
import { smallConfig } from "./support/small-config.ts";

let folder: Awaited<ReturnType<typeof makeTempDirectory>>;
beforeEach(async () => {
  folder = await makeTempDirectory();
});
afterEach(() => folder.remove());

const config = smallConfig("/nowhere");
const sections = [{ name: "weights" as const, bytes: 8, digest: "xxh3b:01" }];

function groupOf(
  step: number,
  index: number,
  patch: Partial<TrajectoryGroup["trajectories"][number]> = {},
): TrajectoryGroup {
  const trajectory = {
    ...{ tokens: Int32Array.of(1, 2, 3), promptLength: 1, logprobs: Float32Array.of(-0.1, -0.7) },
    ...{ lossMask: Uint8Array.of(1, 0), reward: 0.5, status: "completed" as const },
    segments: [{ version: step - 1, from: 0, to: 2 }],
    ...patch,
  };
  const size = config.batch.groupSize * config.rollout.fanOut;
  return { groupId: `${step}.${index}`, step, index, attempt: 0, trajectories: Array(size).fill(trajectory) };
}

const write = (step: number, groups: readonly TrajectoryGroup[], of: JobConfig = config): Promise<string> =>
  writeTrajectories(folder.path, {
    ...{ job: "a", source: sourceOf(of, step), step, weights: { version: step - 1, sections } },
    groups: groups.map((group) => ({ group, version: step - 1 })),
  });

const reasonsIn = async (): Promise<string[]> => {
  const { files, refused } = await scanTrajectories(folder.path, config);
  const loaded = await Promise.all(files.map((file) => loadTrajectories(file, config)));
  return [...refused.map(({ reason }) => reason), ...loaded.filter((one) => typeof one === "string")];
};

describe("a file of trajectories", () => {
  it("gives back tokens, log-probs, masks, versions and rewards as they were", async () => {
    const groups = [groupOf(2, 0), groupOf(2, 3, { status: "truncated", reward: -1 })];
    await write(2, groups);
    await write(1, [groupOf(1, 1)]);
    const { files, refused } = await scanTrajectories(folder.path, config);
    expect(refused).toEqual([]);
    expect(files.map(({ head }) => [head.step, head.weights.version, head.groups.length])).toEqual([
      [1, 0, 1],
      [2, 1, 2],
    ]);
    const loaded = await loadTrajectories(files[1] as (typeof files)[number], config);
    expect(toGroupsBatch(loaded as TrajectoryGroup[])).toEqual(toGroupsBatch(groups));
  });

  it("has about the bytes that its groups are said to have, whether they are prompts or responses", () => {
    const content = { job: "a", source: {}, step: 1, weights: { version: 0, sections: [] } };
    for (const [prompt, response] of [
      [4_000, 1],
      [1, 4_000],
    ] as const) {
      const part = { tokens: new Int32Array(prompt + response), promptLength: prompt };
      const group = groupOf(1, 0, {
        ...{ ...part, logprobs: new Float32Array(response), lossMask: new Uint8Array(response) },
        segments: [{ version: 0, from: 0, to: response }],
      });
      const { length } = encodeTrajectories({ ...content, groups: [{ group, version: 0 }] });
      expect(bytesOfGroup(group) / length).toBeGreaterThan(0.9);
      expect(bytesOfGroup(group) / length).toBeLessThan(1.1);
    }
  });

  it("is written once: the same groups are the same file", async () => {
    expect(await write(1, [groupOf(1, 0)])).toBe(await write(1, [groupOf(1, 0)]));
  });

  it("is written where a process of the same number was killed over it", async () => {
    const path = await write(1, [groupOf(1, 0)]);
    await writeFile(`${path}.${process.pid}.new`, "half");
    expect(await write(1, [groupOf(1, 0)])).toBe(path);
    expect(await reasonsIn()).toEqual([]);
  });

  it("stands for a group of a job only when the same weights sampled it", async () => {
    await write(2, [groupOf(2, 0)]);
    const { files } = await scanTrajectories(folder.path, config);
    const place = { step: 2, index: 0, attempt: 0, version: 1 };
    const isIn = (job: string, digest: string, patch: Partial<typeof place> = {}): boolean => {
      const weights = new Map(digest === "" ? [] : [[1, [{ name: "weights" as const, bytes: 8, digest }]]]);
      return writtenIn(files, { job, weights })({ ...place, ...patch });
    };
    expect([isIn("a", "xxh3b:01"), isIn("b", "xxh3b:01"), isIn("a", "")]).toEqual([true, true, true]);
    expect([isIn("a", "xxh3b:02"), isIn("b", "xxh3b:02"), isIn("b", "")]).toEqual([false, false, false]);
    expect([{ version: 0 }, { attempt: 1 }, { index: 1 }].some((patch) => isIn("a", "xxh3b:01", patch))).toBe(false);
  });

  it("that is bad is refused by name, and the others are read", async () => {
    const [torn, damaged, longer] = await Promise.all([1, 2, 3].map((index) => write(1, [groupOf(1, index)])));
    await write(1, [groupOf(1, 0)]);
    await truncate(`${torn}`, 700);
    const bytes = await readFile(`${damaged}`);
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    await writeFile(`${damaged}`, bytes);
    await writeFile(`${longer}`, Buffer.concat([await readFile(`${longer}`), Buffer.from("x")]));
    await writeFile(join(folder.path, "a.trajectories"), "no json\n");
    await writeFile(join(folder.path, "b.trajectories"), '{"format":"other"}\n');
    await writeFile(join(folder.path, "c.trajectories"), '{"format":"muster-trajectories","v":9}\n');
    await writeFile(join(folder.path, "d.trajectories"), Buffer.alloc(headBytesMax + 9, 32));
    await writeFile(join(folder.path, "e.trajectories"), "");
    await writeFile(join(folder.path, "f.trajectories"), '{"format":"muster-trajectories","v":1,"job":7}\n');
    await mkdir(join(folder.path, "g.trajectories"));
    await writeFile(join(folder.path, "partial.new"), "what a crash left");
    const { files } = await scanTrajectories(folder.path, config);
    expect((await reasonsIn()).sort()).toEqual([
      expect.stringMatching(/^it has \d+ bytes after its first line, which says \d+: it is torn$/),
      expect.stringMatching(/^it has \d+ bytes after its first line, which says \d+: it is torn$/),
      expect.stringContaining("no first line of at most"),
      expect.stringContaining("no first line of at most"),
      expect.stringContaining("version 9 of the format, and this program reads 1"),
      "it is no file",
      expect.stringMatching(/^its digest is [0-9a-f]{64}, and its first line says [0-9a-f]{64}: it is damaged$/),
      expect.stringContaining('does not say format = "muster-trajectories"'),
      expect.stringContaining("its first line is no JSON"),
      expect.stringContaining("its first line is wrong at job"),
    ]);
    expect(files.flatMap(({ head }) => head.groups.map(({ index }) => index)).sort()).toEqual([0, 2]);
  });

  it.each<[string, JobConfig, string]>([
    ["seed", { ...config, seed: config.seed + 1 }, "job.seed"],
    ["batch", { ...config, batch: { ...config.batch, groupsPerStep: 99 } }, "batch.groups_per_step = 99"],
    ["task", { ...config, task: { ...config.task, name: "addition" } }, "job.task = addition"],
    ["prompts", { ...config, prompts: { digest: "d", tokenizerDigest: "t" } as never }, "prompts = d"],
  ])("of a run with another %s is refused with both values", async (_, other, says) => {
    await write(1, [groupOf(1, 0)], other);
    expect(await reasonsIn()).toEqual([expect.stringContaining(says)]);
  });

  it.each<[string, TrajectoryGroup[], string]>([
    ["a group twice", [groupOf(1, 0), groupOf(1, 0)], "group 1.0 twice"],
    ["a group beyond the step", [groupOf(1, 5_000)], "it has group 1.5000"],
    ["a group of another step", [groupOf(2, 0)], "is not what its first line says"],
    ["a token that the model has not", [groupOf(1, 0, { tokens: Int32Array.of(1, 2, 1e6) })], "token 1000000"],
    ["a log-prob that is no number", [groupOf(1, 0, { logprobs: Float32Array.of(0, Number.NaN) })], "not finite"],
    ["a mask that is too short", [groupOf(1, 0, { lossMask: Uint8Array.of(1) })], "loss mask of 1 for 2"],
    ["tokens of later weights", [groupOf(1, 0, { segments: [{ version: 7, from: 0, to: 2 }] })], "tokens of version 7"],
    [
      "a group that is too small",
      [{ ...groupOf(1, 0), trajectories: groupOf(1, 0).trajectories.slice(1) }],
      "and a group has",
    ],
  ])("with %s is refused", async (_, groups, says) => {
    await write(1, groups);
    expect(await reasonsIn()).toEqual([expect.stringContaining(says)]);
  });

  it("of a folder that is not there is the caller's error", async () => {
    await rm(folder.path, { recursive: true });
    await expect(scanTrajectories(folder.path, config)).rejects.toThrow("ENOENT");
  });
});
