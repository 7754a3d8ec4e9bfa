import { needsOfTask, taskOf } from "@muster/data";
import { type JobConfig, type Training, trainingDefaults, z } from "@muster/protocol";
import { type PlacedTensor, placeDensely, type Rule } from "@muster/tensors";
import { describe, expect, it } from "vitest";
import { embeddedAdapter, embeddedEngines } from "../src/embedded/index.ts";
import {
  type EngineAdapter,
  type EngineDescription,
  EngineRegistry,
  formatDifference,
  type RankTensor,
} from "../src/index.ts";

import { faultOfCut } from "../src/registry/rank-layout.ts";

const needs = needsOfTask(taskOf("dates"));
const shape = { hidden: 64, layers: 2, heads: 4, kv_heads: 4, ffn: 128, tied: true };

/** The part of a job that engines look at. */
function jobOf(options: Record<string, string | number | boolean> = {}, more: Partial<JobConfig> = {}): JobConfig {
  const embedded = { adapter: "embedded", options: { ...shape, ...options } };
  const job = {
    engine: { policy: embedded, rollout: embedded },
    rollout: { generate: null, fanOut: 1, ranks: 1 },
    sampling: { temperature: 1, maxNewTokens: 16 },
  };
  return { ...job, ...more } as JobConfig;
}

/** The embedded engine with other traits, under the name `other`. */
function withOther(traits: Partial<EngineAdapter>, described: object = {}): EngineRegistry {
  const describe: EngineAdapter["describe"] = (options, task) => ({
    ...embeddedAdapter.describe(options, task),
    ...described,
  });
  return new EngineRegistry([
    ["embedded", embeddedAdapter],
    ["other", { ...embeddedAdapter, kind: "other", describe, ...traits }],
  ]);
}

const sampledByOther = (options = {}): JobConfig["engine"] => ({
  policy: { adapter: "embedded", options: shape },
  rollout: { adapter: "other", options: { ...shape, ...options } },
});

describe("the embedded engine", () => {
  it("has a key, a default and a sentence for each field of its schema", () => {
    const { table, keys } = embeddedEngines.tableOf("embedded");
    expect(table).toBe("model");
    expect(Object.fromEntries(keys.map((key) => [key.name, key.default]))).toEqual(shape);
    for (const { says } of keys) expect(says).toMatch(/^[A-Z].*\.$/);
  });

  it("names in its schema's faults the key and the bound", () => {
    const { faultsOf } = embeddedEngines.tableOf("embedded");
    expect(faultsOf(shape)).toEqual([]);
    expect(faultsOf({ ...shape, heads: 0 })).toEqual([{ name: "heads", fault: expect.stringMatching(/>=1/) }]);
  });

  it.each<[string, object, number, RegExp]>([
    ["heads that do not fit", { hidden: 60 }, 1, /model\.heads = 4 must divide model\.hidden = 60: .*; make model/],
    ["key-value heads that do not fit", { kv_heads: 3 }, 1, /model\.kv_heads = 3 must divide model\.heads = 4: .*; /],
    ["a width that is no vector", { ffn: 126 }, 1, /four must divide model\.ffn = 126: .*; make/],
    ["ranks that cannot share the heads", { ffn: 132 }, 3, /rollout\.ranks = 3 must divide model\.kv_heads = 4: .*; /],
    [
      "ranks that cannot share the rest",
      { ffn: 100 },
      2,
      /four times rollout\.ranks = 2 must divide model\.ffn = 100: /,
    ],
  ])("refuses %s, naming keys, values and a fix", (_, options, ranks, text) => {
    const job = jobOf({ ...options }, { rollout: { generate: null, fanOut: 1, ranks } });
    expect(embeddedEngines.problemsOf(job, needs)).toEqual([
      { keys: expect.any(Array), text: expect.stringMatching(text) },
    ]);
  });

  it("opens as what it says it is", async () => {
    const policy = await embeddedEngines.openPolicy(jobOf(), needs);
    expect(policy.info().fingerprint).toMatch(/^[0-9a-f]{16}$/);
    const rollout = await embeddedEngines.openRollout(jobOf(), needs);
    expect(policy.info().tensors).toEqual(embeddedEngines.describe("policy", jobOf().engine, needs).tensors);
    const { fingerprint } = policy.info();
    expect(rollout.info()).toMatchObject({ build: embeddedAdapter.build(), vocab: 43, maxContext: 36, fingerprint });
    await Promise.all([policy.close(), rollout.close()]);
  });
});

describe("engines of a job", () => {
  it("may be of two kinds when they agree on a weight format", () => {
    expect(withOther({}).problemsOf(jobOf({}, { engine: sampledByOther() }), needs)).toEqual([]);
  });

  it("are refused with the first tensor that differs", () => {
    const engine = sampledByOther({ ffn: 256 });
    expect(withOther({}).problemsOf(jobOf({}, { engine }), needs)).toEqual([
      {
        keys: ["engine.kind", "engine.rollout"],
        text: expect.stringMatching(
          /tensor "model\.layers\.0\.mlp\.gate_proj\.weight" is f32\[128, 64\] for the trainers and f32\[256, 64\] for the samplers; /,
        ),
      },
    ]);
  });

  it.each<[string, object, Partial<JobConfig>, RegExp]>([
    [
      "another tokenizer",
      { tokenizer: "b" },
      {},
      /the tokenizer's digest is characters-\w+ for the trainers and b for/,
    ],
    ["another model", { modelId: "m" }, {}, /the model id is llama-l2-d64-v43 for the trainers and m for the samplers/],
    [
      "no way for weights",
      { transports: ["shards"] },
      {},
      /rollout\.ranks = 1: .* by inline, .* by shards only; change/,
    ],
    [
      "raw log-probabilities at a temperature",
      { logprobs: "raw" },
      { sampling: { temperature: 0.5, maxNewTokens: 16 } },
      /sampling\.temperature = 0\.5: .*; set it to 1/,
    ],
  ])("refuse a sampler with %s", (_, described, more, text) => {
    const job = jobOf({}, { engine: sampledByOther(), ...more });
    expect(withOther({}, described).problemsOf(job, needs)).toEqual([
      { keys: expect.any(Array), text: expect.stringMatching(text) },
    ]);
  });

  it("refuse a trainer that does not repeat itself, because votes compare its bits", () => {
    const other = { adapter: "other", options: shape };
    const job = jobOf({}, { engine: { policy: other, rollout: other } });
    const registry = withOther({}, { deterministic: false });
    expect(registry.problemsOf(job, needs)).toEqual([
      {
        keys: ["engine.kind", "job.agreement"],
        text: expect.stringMatching(
          /job\.agreement = "state": .* does not give equal bits; set job\.agreement = "leader"/,
        ),
      },
    ]);
    const levels = (["weights", "leader"] as const).map((agreement) =>
      registry.problemsOf({ ...job, agreement }, needs),
    );
    expect(levels).toEqual([[], []]);
  });

  it.each<[Partial<Training>, RegExp]>([
    [{ algorithm: "gspo" }, /^training\.algorithm = "gspo": .*\(gspo\), it can the clipped surrogate alone; change/],
    [{ aggregation: "sequence" }, /^training\.aggregation = "sequence": .*\(sample-weights\)/],
    [{ klCoefficient: 0.1 }, /^training\.kl_coefficient = 0\.1: .*\(reference\)/],
    [{ entropyCoefficient: 0.1 }, /^training\.entropy_coefficient = 0\.1: .*\(entropy\)/],
    [{ staleCorrection: "mask" }, /^training\.stale_correction = "mask": .*\(stale\)/],
  ])("refuse a loss that their trainer would leave out: %o", (change, text) => {
    const other = { adapter: "other", options: shape };
    const job = jobOf({}, { engine: { policy: other, rollout: other } });
    const registry = withOther({}, { losses: undefined });
    const training = { ...trainingDefaults, ...change };
    expect(registry.problemsOf({ ...job, training }, needs)).toEqual([
      {
        keys: ["engine.kind", text.source.slice(1).split(" ")[0]?.replace("\\", "")],
        text: expect.stringMatching(text),
      },
    ]);
    expect(withOther({}).problemsOf({ ...job, training }, needs)).toEqual([]);
    for (const algorithm of ["dr_grpo", "dapo", "reinforce++"] as const)
      expect(registry.problemsOf({ ...job, training: { ...trainingDefaults, algorithm } }, needs)).toEqual([]);
  });

  it("refuse an engine in a role that it does not have", () => {
    const registry = withOther({ roles: ["policy"] });
    expect(registry.problemsOf(jobOf({}, { engine: sampledByOther() }), needs)[0]?.text).toBe(
      'engine.rollout = "other": other trains only; name an engine that samples in engine.rollout',
    );
  });

  it("are closed and refused when they open as something else than they said", async () => {
    let closed = 0;
    const openRollout: EngineAdapter["openRollout"] = async (options, opening) => {
      const engine = await embeddedAdapter.openRollout!(options, opening);
      const info = { ...engine.info(), vocab: 44 };
      return Object.assign(engine, { info: () => info, close: async () => void closed++ });
    };
    const job = jobOf({}, { engine: sampledByOther() });
    await expect(withOther({ openRollout }).openRollout(job, needs)).rejects.toThrow(
      /another vocab than it said: 44, .* 43/,
    );
    expect(closed).toBe(1);
  });

  it("have tables of texts, numbers and booleans with a default and a description, or none", () => {
    const schema = z.strictObject({ list: z.array(z.string()) });
    expect(() => withOther({ schema, table: "engine.other" }).tableOf("other")).toThrow(
      /\[engine\.other\].* list can not be a key/,
    );
  });
});

describe("a weight format", () => {
  const { tensors } = embeddedAdapter.describe(shape, needs);
  const format = { modelId: "m", vocab: 43, tokenizer: "t", tensors };

  it("equals itself and nothing with a row more or less", () => {
    expect(formatDifference(format, { ...format })).toBe(null);
    expect(formatDifference(format, { ...format, tensors: tensors.slice(0, -1) })).toMatchObject({
      sampler: "no such row",
    });
    expect(formatDifference({ ...format, tensors: [] }, format)).toMatchObject({ trainer: "no such row" });
  });
});

describe("a sampler of the trainers' model under other names, or in another type", () => {
  const problems = (
    change: (tensors: readonly PlacedTensor[]) => Partial<EngineDescription>,
    config: Partial<JobConfig> = {},
  ): readonly string[] => {
    const registry = withOther({
      describe: (options, own) => {
        const described = embeddedAdapter.describe(options, own);
        return { ...described, ...change(described.tensors) };
      },
    });
    return registry.problemsOf(jobOf({}, { engine: sampledByOther(), ...config }), needs).map(({ text }) => text);
  };
  const halved = (tensors: readonly PlacedTensor[]) => ({
    tensors: placeDensely([...tensors].reverse().map((tensor) => ({ ...tensor, dtype: "bf16" as const }))),
  });
  const renamed = (tensors: readonly PlacedTensor[]) => ({
    tensors: tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace(/^model\./, "own.") })),
  });

  it("is taken when it is alone, since what comes is converted", () => {
    expect(problems(halved)).toEqual([]);
    const rules: readonly Rule[] = ["{a}.{b}", "{a}.{b}.{c}.{d}", "{a}.{b}.{c}.{d}.{e}"].map((rest) => ({
      ...{ kind: "rename", from: `model.${rest}`, to: `own.${rest}` },
    }));
    expect(problems((tensors) => ({ ...renamed(tensors), conversion: rules }))).toEqual([]);
  });

  it("is refused with several ranks, without rules for its names, and with rules that do not fit, each by the tensor", () => {
    const ranks = problems(halved, { rollout: { ...jobOf({}).rollout, ranks: 2 } });
    expect(ranks.at(-1)).toMatch(/row 1 of the tensor table is .*; set rollout\.ranks and processes\.rollout to 1/);
    expect(problems(renamed)).toEqual([
      expect.stringMatching(/tensor "own\.embed_tokens\.weight" is not there for the trainers and f32\[43, 64\]/),
    ]);
    const rule: Rule = { kind: "rename", from: "no.such", to: "other" };
    expect(problems((tensors) => ({ ...renamed(tensors), conversion: [rule] }))).toEqual([
      expect.stringMatching(/rename no\.such matches no tensor\) for the samplers; configure both for one model$/),
    ]);
  });
});

describe("a sampler whose processes take their own parts", () => {
  type Layout = NonNullable<EngineAdapter["layout"]>;
  const whole = { partition: null, layer: "first" } as const;
  const layout =
    (tp: number, pp: number, cut: Partial<Pick<RankTensor, "partition" | "layer">> = {}): Layout =>
    () => ({ tp, pp, cut: ({ shape }) => ({ partition: shape.length > 1 ? 0 : null, layer: "first", ...cut }) });
  const problems = (of: Layout | null): readonly string[] => {
    const openRank: EngineAdapter["openRank"] = () => Promise.reject(new Error("not opened here"));
    const registry = withOther({ openRank, ...(of ? { layout: of } : {}) });
    const config = jobOf({}, { engine: sampledByOther(), processes: { policy: 1, rollout: 4, checkpoint: 1 } });
    return registry.problemsOf(config, needs).map(({ text }) => text);
  };

  it("has its layout worked out for the processes of the job", () => {
    const registry = withOther({ layout: layout(2, 2, { layer: 1 }) });
    const processes = { policy: 4, rollout: 4, checkpoint: 1 };
    const cut = registry.rankCutOf("rollout", jobOf({}, { engine: sampledByOther(), processes }), needs);
    expect(cut).toMatchObject({ tp: 2, pp: 2 });
    expect(cut?.tensors[0]).toEqual({
      ...{ name: "model.embed_tokens.weight", shape: [needs.vocab, 64] },
      ...{ elementBytes: 4, partition: 0, layer: 1 },
    });
    expect(registry.rankCutOf("rollout", jobOf({}, { engine: sampledByOther() }), needs)).toBeNull();
    expect(problems(layout(4, 1))).toEqual([]);
    expect(problems(null)).toEqual([]);
  });

  it.each<[string, Layout, RegExp]>([
    [
      "ways that are not the processes",
      layout(2, 1),
      /tp · fsdp · pp · dp = 2 · 1 · 1 · 1 is not the number of processes/,
    ],
    ["a number of ways that is none", layout(0, 4), /tp is 0, and must be a whole number from 1 to 1024/],
    ["a dimension that there is not", layout(4, 1, { partition: 2 }), /is cut along dimension 2/],
    ["more stages than layers", layout(1, 4, { layer: 0 }), /pp = 4 stages are more than the 1 layers/],
    ["a layer that is none", layout(4, 1, { layer: -1 }), /is of layer -1/],
    ["copies of which there are none", () => ({ tp: 4, pp: 1, dp: 0, cut: () => whole }), /dp is 0, and must be/],
    [
      "a cut of FSDP that is none",
      () => ({ tp: 1, pp: 1, fsdp: 4, fsdpCut: "x", cut: () => whole }) as never,
      /fsdpCut is x/,
    ],
  ])("is refused with %s", (_, of, text) => {
    const found = problems(of);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(
      /^processes\.rollout = 4: other can not cut the model over them: .*; change processes\.rollout/,
    );
    expect(found[0]).toMatch(text);
  });
});

describe("a trainer whose processes each have a shard", () => {
  const layout: NonNullable<EngineAdapter["layout"]> = (_, __, size) => ({
    ...{ tp: size, pp: 1 },
    cut: ({ shape }) => ({ partition: shape.length > 1 ? 0 : null, layer: "first" }),
  });
  const openRank: EngineAdapter["openRank"] = () => Promise.reject(new Error("not opened here"));
  const both = { policy: { adapter: "other", options: shape }, rollout: { adapter: "other", options: shape } };
  const alone = { checkpoint: { memoryEvery: 0 } } as unknown as Partial<JobConfig>;
  const job = (patch: Partial<JobConfig> = {}): JobConfig =>
    jobOf({}, { engine: both, processes: { policy: 2, rollout: 4, checkpoint: 1 }, ...alone, ...patch });
  const inShards = (traits: Partial<EngineAdapter> = {}) =>
    withOther({ openRank, layout, trainsInShards: true, ...traits });

  it("has its layout worked out, and without that word rank 0 has the whole state", () => {
    expect(inShards().rankCutOf("policy", job(), needs)).toMatchObject({ tp: 2, pp: 1 });
    expect(inShards().problemsOf(job(), needs)).toEqual([]);
    expect(withOther({ openRank, layout }).rankCutOf("policy", job(), needs)).toBeNull();
  });

  it.each<[string, Partial<JobConfig>, RegExp]>([
    ["levels that compare the whole", { agreement: "leader" }, /job\.agreement = "leader" compares .*; set job/],
    [
      "states kept in memory",
      { checkpoint: { memoryEvery: 1 } } as unknown as Partial<JobConfig>,
      /checkpoint\.memory_every = 1 keeps states that one process has; set it to 0/,
    ],
  ])("is refused with %s", (_, patch, text) => {
    const texts = inShards()
      .problemsOf(job(patch), needs)
      .map((problem) => problem.text);
    expect(texts).toEqual([expect.stringMatching(text)]);
    expect(texts[0]).toMatch(/^processes\.policy = \d+: each process has a shard of the training state, /);
  });

  it("is refused with samplers of another engine, which do not load that of the trainers", () => {
    const engine = { policy: both.policy, rollout: { adapter: "embedded", options: shape } };
    const config = job({ engine, processes: { policy: 2, rollout: 1, checkpoint: 1 } });
    expect(
      inShards()
        .problemsOf(config, needs)
        .map(({ text }) => text),
    ).toEqual([expect.stringMatching(/engine\.rollout = "embedded" do not know how; use the engine of the trainers/)]);
    const sampler = new EngineRegistry([["embedded", embeddedAdapter]]);
    expect(sampler.rankCutOf("policy", config, needs)).toBeNull();
    expect(
      sampler.rankCutOf("policy", job({ engine, processes: { policy: 1, rollout: 4, checkpoint: 1 } }), needs),
    ).toBeNull();
  });

  it("may have the model otherwise than its samplers: as shards of FSDP, and along other dimensions", () => {
    const byRole: typeof layout = (_, __, size, role) => ({
      ...(role === "policy" ? { tp: 1, fsdp: size, pp: 1 } : { tp: size, pp: 1 }),
      cut: ({ shape }) => ({ partition: shape.length > 1 ? (role === "policy" ? 0 : 1) : null, layer: "first" }),
    });
    const registry = inShards({ layout: byRole });
    expect(registry.problemsOf(job(), needs)).toEqual([]);
    expect(registry.rankCutOf("policy", job(), needs)).toMatchObject({ tp: 1, fsdp: 2 });
    expect(registry.rankCutOf("rollout", job(), needs)).toMatchObject({ tp: 4 });
  });

  it("is refused when FSDP leaves nothing to one of its processes", () => {
    const cut = {
      tp: 1,
      pp: 1,
      fsdp: 4,
      tensors: [{ name: "w", shape: [5], elementBytes: 4, partition: null, layer: 0 }],
    };
    expect(faultOfCut(cut, 4)).toBe("fsdp = 4 leaves nothing of any tensor to the last of its ranks");
    expect(faultOfCut({ ...cut, fsdp: 3 }, 3)).toBeNull();
    const scalar = [{ name: "s", shape: [], elementBytes: 4, partition: null, layer: 0 }];
    expect(faultOfCut({ ...cut, tensors: scalar }, 4)).toBe("tensor s is one number, which fsdp = 4 can not cut");
  });
});
