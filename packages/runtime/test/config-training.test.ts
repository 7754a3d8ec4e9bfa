/** The keys of an algorithm: what it brings along, and what does not go together. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jobConfigSchema } from "@muster/protocol";
import { afterAll, describe, expect, test } from "vitest";
import { loadJob } from "../src/config/index.ts";
import { engines } from "./support/engines.ts";

const folder = mkdtempSync(join(tmpdir(), "muster-training-"));
afterAll(() => rmSync(folder, { recursive: true }));

function load(lines: string, mode = "sync") {
  const file = join(folder, "job.toml");
  writeFileSync(file, `[job]\nname = "dates"\nmode = "${mode}"\n[task]\nname = "dates"\n${lines}`);
  const describeTask = () => ({ vocab: 43, maxContext: 36 });
  return loadJob({ file, env: {}, folder, describeTask, engines }).config;
}
const faults = (lines: string, mode?: string): string => {
  try {
    load(lines, mode);
  } catch (error) {
    return (error as Error).message;
  }
  return "none";
};

describe("an algorithm", () => {
  test("is grpo where nobody says otherwise, with nothing added", () => {
    expect(load("")).toMatchObject({
      loss: { clipLow: 0.2, clipHigh: 0.28 },
      batch: { minibatches: 2 },
      training: { algorithm: "grpo", aggregation: "token", klCoefficient: 0, overlongTokens: 0, reference: null },
      optimizer: { lrSchedule: "linear" },
    });
  });

  test.each([
    ["dr_grpo", { clipLow: 0.2, clipHigh: 0.2 }, { aggregation: "budget" }, 2],
    ["dapo", { clipLow: 0.2, clipHigh: 0.28 }, { aggregation: "token", overlongTokens: 3 }, 2],
    ["gspo", { clipLow: 3e-4, clipHigh: 4e-4 }, { aggregation: "sequence" }, 2],
    ["cispo", { clipLow: 1, clipHigh: 4 }, { aggregation: "token" }, 2],
    ["rloo", {}, { aggregation: "sum" }, 1],
    ["reinforce++", { clipLow: 0.2, clipHigh: 0.2 }, { aggregation: "token" }, 2],
    ["sft", {}, { aggregation: "token" }, 1],
  ])("%s brings its own defaults along", (algorithm, loss, training, minibatches) => {
    const text = `[training]\nalgorithm = "${algorithm}"`;
    expect(load(text)).toMatchObject({ loss, training: { algorithm, ...training }, batch: { minibatches } });
    expect(load(`${text}\n[batch]\nminibatches = 1\n[loss]\nclip_low = 0.1`)).toMatchObject({
      ...{ loss: { clipLow: 0.1 }, batch: { minibatches: 1 } },
    });
  });

  test("of a job that was begun before there was a choice is not asked for", () => {
    const { training: _, ...older } = load("");
    expect(jobConfigSchema.parse(older)).toEqual(older);
  });

  test("that is unknown is named, with those that are known", () => {
    expect(faults('[training]\nalgorithm = "ppo"')).toMatch(/training\.algorithm = "ppo": .*"grpo"\|.*"reinforce\+\+"/);
  });

  test.each([
    ["[training]\noverlong_tokens = 16", /overlong_tokens = 16 must be below sampling\.max_new_tokens = 16: .*; lower/],
    ["[training]\ntrain_groups = 129", /train_groups = 129 must not be over batch\.groups_per_step = 128: .*; raise/],
    ["[evaluation]\nloss_rows = 8", /evaluation\.loss_rows = 8 does not go with training\.algorithm = "grpo": .*; set/],
    ["[loss]\nclip_low = 1.5", /loss\.clip_low = 1\.5 with training\.algorithm = "grpo" must not be over 1: .*; set/],
    [
      '[training]\nalgorithm = "rloo"\n[batch]\nminibatches = 2',
      /batch\.minibatches = 2 does not go with training\.algorithm = "rloo", .*; set batch\.minibatches = 1/,
    ],
    [
      `[weights]\nsource = "checkpoint:${folder}"\n[training]\nkl_coefficient = 0.1`,
      /kl_coefficient = 0\.1 needs a reference policy, and weights\.source = "checkpoint:.*; name the folder/,
    ],
    [
      `[training]\nreference = "${folder}"`,
      /training\.reference = ".*" has no effect with training\.kl_coefficient = 0; raise/,
    ],
    [
      "[batch]\ngroup_size = 1",
      /batch\.group_size = 1 does not go with training\.algorithm = "grpo": .*; set batch\.group_size to at/,
    ],
    ["[training]\nkl_coefficient = -1", /training\.kl_coefficient = -1/],
    ["[training]\nstale_cap = 0.5", /training\.stale_cap = 0\.5/],
    ['[training]\nkl_estimator = "k4"', /training\.kl_estimator = "k4"/],
    ['[training]\nreference = "gone"', /training\.reference = "gone": .*gone does not exist/],
    ['[optimizer]\nlr_schedule = "steps"', /optimizer\.lr_schedule = "steps"/],
  ])("with %j says what is wrong", (lines, text) => {
    expect(faults(lines)).toMatch(text);
  });

  test("that only learns from answers has one for each prompt, and refuses by name what is of sampling", () => {
    const sft = '[training]\nalgorithm = "sft"\n';
    expect(load(sft)).toMatchObject({ batch: { groupSize: 1, minibatches: 1 }, training: { algorithm: "sft" } });
    for (const [lines, text] of [
      [
        "kl_coefficient = 0.1",
        /training\.kl_coefficient = 0\.1 does not go with training\.algorithm = "sft": .*; set training\.kl_coefficient = 0/,
      ],
      ["overlong_tokens = 2", /training\.overlong_tokens = 2 does not go with .*; set training\.overlong_tokens = 0/],
      ["train_groups = 2", /training\.train_groups = 2 does not go with .*; set training\.train_groups = 0/],
      [
        'stale_correction = "mask"',
        /training\.stale_correction = "mask" does not go with .*; set training\.stale_correction = "off"/,
      ],
      [
        "[batch]\ngroup_size = 8",
        /batch\.group_size = 8 does not go with .*: a prompt has one answer; set batch\.group_size = 1/,
      ],
      [
        "[sampling]\ntemperature = 0.5",
        /sampling\.temperature = 0\.5 does not go with .*; set sampling\.temperature = 1/,
      ],
      ["[rollout]\nfan_out = 2", /rollout\.fan_out = 2 does not go with .*; set rollout\.fan_out = 1/],
      [
        `[rollout]\ngenerate = "${import.meta.filename}"`,
        /rollout\.generate = ".*" does not go with .*; leave rollout\.generate out/,
      ],
      [
        '[rollout.agent]\ncommand = "true"',
        /rollout\.agent\.command = "true" does not go with .*; leave rollout\.agent\.command out/,
      ],
    ] as const)
      expect(faults(sft + lines)).toMatch(text);
  });

  test("without a ratio takes no stale tokens unless they are corrected", () => {
    const rloo = '[training]\nalgorithm = "rloo"\n';
    expect(faults(rloo, "async")).toMatch(
      /job\.staleness_max = 1 does not go with training\.algorithm = "rloo".*stale_correction/,
    );
    expect(faults(`${rloo}stale_correction = "truncate"`, "async")).toBe("none");
  });
});
