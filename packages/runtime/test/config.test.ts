import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MusterError } from "@muster/base";
import { jobConfigSchema } from "@muster/protocol";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { explainConfig, fields, type LoadJobOptions, loadJob } from "../src/config/index.ts";
import { envNameOf, validateTiming } from "../src/internal.ts";
import { engines, llama } from "./support/engines.ts";

const describeTask = (name: string) => {
  if (name !== "dates" && name !== "addition") throw new Error(`unknown task; known are dates and addition`);
  return name === "dates" ? { vocab: 43, maxContext: 36 } : { vocab: 13, maxContext: 12 };
};
const minimal = '[job]\nname = "dates"\n\n[task]\nname = "dates"\n';

describe("the job configuration", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "muster-config-"));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  let files = 0;
  const write = (text: string): string => {
    const file = join(folder, `job-${files++}.toml`);
    writeFileSync(file, text);
    return file;
  };
  const load = (text: string, options: Partial<LoadJobOptions> = {}) =>
    loadJob({ file: write(text), env: {}, folder: "/somewhere", describeTask, engines, ...options });
  /** The faults of a configuration, one line each. */
  const faults = (text: string, options: Partial<LoadJobOptions> = {}): string[] => {
    try {
      load(text, options);
    } catch (error) {
      expect(error).toBeInstanceOf(MusterError);
      expect((error as MusterError).code).toBe("MUSTER_ERR_CONFIG_INVALID");
      return (error as Error).message.split("\n  - ").slice(1);
    }
    return [];
  };

  test("needs a name and a task, and fills in everything else", () => {
    const { config } = load(minimal);
    expect(jobConfigSchema.parse(config)).toEqual(config);
    expect(config).toMatchObject({
      job: "dates",
      mode: "sync",
      stalenessMax: 0,
      weights: { kind: "seed", seed: 1 },
      model: { vocab: 43, maxContext: 36 },
      engine: { policy: llama, rollout: llama },
      batch: { groupsPerStep: 128, groupSize: 8, minibatches: 2, microShards: 8 },
      timing: {
        heartbeatIntervalMs: 1_000,
        suspectAfterMs: 3_000,
        deadAfterMs: 10_000,
        gatherMs: 300_000,
        tickMs: 200,
      },
      failure: { engineCrash: { action: "quarantine", attempts: 3, backoffMs: 0 }, abortShareMax: 0.05 },
      limits: { leaseGroupsMax: 32, mailboxMax: 10_000 },
      checkpoint: { directory: "/somewhere/.muster/checkpoints/dates" },
      data: { tcpHost: null, socketDirectory: "/tmp/muster-dates" },
    });
  });

  test("has a default, a place and a sentence for every key, and a key for every place", () => {
    const { config } = load(minimal);
    const leaves = (value: unknown, path: string): string[] =>
      typeof value === "object" && value !== null && path !== "weights"
        ? Object.entries(value).flatMap(([key, inner]) => leaves(inner, path ? `${path}.${key}` : key))
        : [path];
    // What the model has and what an engine's own table says is the engine's business.
    const expected = leaves(config, "").filter((path) => !/^model\.|^engine\..*\.options\./.test(path));
    const compiled = fields.map(({ path }) => path).filter((path) => !/^(prompts|rollout\.agent|scorers)\./.test(path));
    expect(compiled.sort()).toEqual(expected.sort());
    expect(new Set(fields.map(({ key }) => envNameOf(key))).size).toBe(fields.length);
    for (const { key, says } of fields) expect(says, key).toMatch(/^[A-Za-z].*\.$/s);
  });

  test("is frozen all the way down", () => {
    const { config } = load(minimal);
    expect(() => Object.assign(config, { seed: 2 })).toThrow(TypeError);
    expect(() => Object.assign(config.timing, { stepMs: 1 })).toThrow(TypeError);
  });

  test("prefers flags to the environment to the file to defaults", () => {
    const text = `${minimal}[batch]\ngroup_size = 4\nminibatches = 4\n[optimizer]\nlr = 0.001\n`;
    const { config } = load(text, {
      env: { MUSTER_BATCH_GROUP_SIZE: "6", MUSTER_BATCH_MINIBATCHES: "8", PATH: "/bin" },
      set: ["batch.minibatches=16"],
      flags: { "job.seed": 9, "job.steps": 3 },
    });
    expect(config.batch).toMatchObject({ groupsPerStep: 128, groupSize: 6, minibatches: 16 });
    expect([config.optimizer.lr, config.seed, config.steps]).toEqual([0.001, 9, 3]);
    expect(config.weights).toEqual({ kind: "seed", seed: 9 });
  });

  test("explains every value with who said it", () => {
    const job = load(`${minimal}\n[timing]\nstep = "90s"\n`, {
      env: { MUSTER_TIMING_REWARD: "2s" },
      set: ["sampling.temperature=0.8"],
      flags: { "replicas.policy": 2 },
    });
    const rows = new Map(explainConfig(job).map((row) => [row.key, row]));
    expect(rows.size).toBe(fields.length + 2);
    expect(rows.get("timing.step")).toEqual({
      key: "timing.step",
      kind: "duration",
      value: "90s",
      source: expect.stringMatching(/^job-\d+\.toml:8$/),
    });
    expect(rows.get("timing.reward")).toMatchObject({ value: "2s", source: "env:MUSTER_TIMING_REWARD" });
    expect(rows.get("sampling.temperature")).toMatchObject({ value: "0.8", source: "flag" });
    expect(rows.get("replicas.policy")).toMatchObject({ value: "2", source: "flag" });
    expect(rows.get("timing.pull")).toMatchObject({ value: "40s", source: "default" });
    expect(rows.get("checkpoint.directory")).toMatchObject({ value: "/somewhere/.muster/checkpoints/dates" });
  });

  test("starts relative paths of the file at the file, and others where the command runs", () => {
    const text = `${minimal}[weights]\nsource = "folder:warm/dates"\n[checkpoint]\ndirectory = "../kept"\n`;
    expect(load(text).config.weights).toEqual({ kind: "folder", path: join(folder, "warm/dates") });
    expect(load(text).config.checkpoint.directory).toBe(join(folder, "../kept"));
    const flagged = load(text, { set: ["weights.source=checkpoint:c/1"] });
    expect(flagged.config.weights).toEqual({ kind: "checkpoint", path: "/somewhere/c/1" });
    expect(load(text, { set: ["weights.source=seed:77"] }).config.weights).toEqual({ kind: "seed", seed: 77 });
  });

  test("lets async follow its own staleness unless told", () => {
    expect(load(minimal, { set: ["job.mode=async"] }).config.stalenessMax).toBe(1);
    expect(load(minimal, { set: ["job.mode=async", "job.staleness_max=4"] }).config.stalenessMax).toBe(4);
  });

  test("is made of flags alone when there is no file", () => {
    const { config } = loadJob({
      env: {},
      folder: "/f",
      describeTask,
      engines,
      flags: { "job.name": "quick", "task.name": "addition", "sampling.max_new_tokens": 6 },
    });
    expect([config.job, config.model.vocab]).toEqual(["quick", 13]);
  });

  const value = (section: string, line: string): string =>
    `${minimal.replace("[task]", `[${section}]\n${line}\n[task]`)}`;
  test.each<[string, string, RegExp]>([
    [
      "a text for a number",
      value("batch", 'group_size = "8"'),
      /job-\d+\.toml:5: batch\.group_size = "8": must be a whole number/,
    ],
    ["a fraction for a count", value("batch", "group_size = 8.5"), /batch\.group_size = 8\.5: must be a whole number/],
    ["a number for a duration", value("timing", "step = 60"), /timing\.step = 60: must be a duration, such as "250ms"/],
    ["a duration without unit", value("timing", 'step = "60"'), /timing\.step = "60": "60" is not a duration; write/],
    ["a yes for a boolean", value("failure", 'fail_fast = "yes"'), /failure\.fail_fast = "yes": must be true or false/],
    [
      "an array for a text",
      minimal.replace('[task]\nname = "dates"', '[task]\nname = ["dates"]'),
      /task\.name = \["dates"\]: must be a name, or a path of a module/,
    ],
    [
      "a weight source of no kind",
      value("weights", 'source = "hub:llama"'),
      /must be "seed", "seed:NUMBER", "folder:PATH"/,
    ],
    ["a weight source without path", value("weights", 'source = "folder:"'), /must be "seed"/],
    [
      "a group of one",
      value("batch", "group_size = 1"),
      /batch\.group_size = 1 does not go with training\.algorithm = "grpo": .*; set batch\.group_size to at least 2/,
    ],
    [
      "a mode that does not exist",
      minimal.replace("[task]", 'mode = "fast"\n[task]'),
      /job\.mode = "fast": expected one of "sync"\|"async"/,
    ],
    [
      "a name that is no id",
      minimal.replace('"dates"', '"My Job"'),
      /job\.name = "My Job": use 1 to 48 of a-z, 0-9 and "-"/,
    ],
    ["a zero duration", value("timing", 'tick = "0s"'), /timing\.tick = "0s": expected number to be >0/],
    [
      "a key that is nearly right",
      value("timing", 'dead_afer = "9s"'),
      /timing\.dead_afer = "9s" is not a known key; did you mean timing\.dead_after\?/,
    ],
    [
      "a section that is nearly right",
      value("sampler", "temperature = 1"),
      /sampler\.temperature = 1 is not a known key; did you mean sampling\.temperature\?/,
    ],
    ["a key outside all sections", `seed = 3\n${minimal}`, /job-\d+\.toml:1: seed = 3 is not a known key/],
    [
      "a task that does not exist",
      minimal.replace('[task]\nname = "dates"', '[task]\nname = "chess"'),
      /task\.name = "chess": unknown task; known are/,
    ],
    ["no name at all", '[task]\nname = "dates"\n', /^job\.name is missing/],
    ["no task at all", '[job]\nname = "dates"\n', /^task\.name is missing/],
  ])("refuses %s, naming place, key, value and fix", (_, text, expected) => {
    expect(faults(text)).toEqual([expect.stringMatching(expected)]);
  });

  test("reports a file that is no TOML with its place, and one that does not exist", () => {
    expect(faults("[job\nname = 1")[0]).toMatch(/job-\d+\.toml: Invalid TOML/);
    expect(() => loadJob({ file: "/no/such.toml", env: {}, describeTask, engines })).toThrow(
      /1 fault in the configuration:\n {2}- \/no\/such\.toml: ENOENT[^\n]*$/,
    );
  });

  test.each<[string, string[], RegExp]>([
    [
      "suspect_after ≥ dead_after",
      ["timing.suspect_after=10s"],
      /timing\.suspect_after = "10s" must be shorter than timing\.dead_after = "10s".*; raise timing\.dead_after/,
    ],
    [
      "heartbeats too rare",
      ["timing.heartbeat_interval=2s", "timing.dead_after=5s", "health.missed_beats=2"],
      /timing\.dead_after = "5s" must be at least three times timing\.heartbeat_interval = "2s"/,
    ],
    [
      "heartbeat ≥ suspect",
      ["timing.heartbeat_interval=3s", "health.missed_beats=3"],
      /timing\.heartbeat_interval = "3s" must be shorter than timing\.suspect_after/,
    ],
    ["tick ≥ suspect", ["timing.tick=4s"], /timing\.tick = "4s" must be shorter than/],
    [
      "collective ≥ step",
      ["timing.collective=60s"],
      /timing\.collective = "60s" must be shorter than timing\.step = "60s"/,
    ],
    [
      "dead_after ≥ step",
      ["timing.dead_after=90s", "timing.lease=150s"],
      /timing\.dead_after = "90s" must be shorter than timing\.step/,
    ],
    ["mesh ≥ step", ["timing.mesh=2m"], /timing\.mesh = "2m" must be shorter than timing\.step/],
    [
      "pull ≥ step",
      ["timing.pull=60s", "timing.checkpoint=2m"],
      /timing\.pull = "60s" must be shorter than timing\.step/,
    ],
    [
      "pull ≥ checkpoint",
      ["timing.checkpoint=20s"],
      /timing\.pull = "40s" must be shorter than timing\.checkpoint = "20s"/,
    ],
    [
      "more hosts than checkpoint actors",
      ["replicas.checkpoint=1", "checkpoint.quorum=2"],
      /checkpoint\.quorum = "2" must not be over replicas\.checkpoint = "1": no checkpoint would ever count; lower checkpoint\.quorum/,
    ],
    [
      "more shards than checkpoint actors",
      ["replicas.checkpoint=2", "checkpoint.shards=3"],
      /checkpoint\.shards = "3" must not be over replicas\.checkpoint = "2": each shard is .*; lower checkpoint\.shards/,
    ],
    [
      "shards and copies",
      ["replicas.checkpoint=2", "checkpoint.shards=2", "checkpoint.quorum=2"],
      /checkpoint\.shards = "2" does not go with checkpoint\.quorum = "2": .*; set checkpoint\.quorum = 1 or checkpoint\.shards = 1/,
    ],
    ["command ≥ step", ["timing.command=60s"], /timing\.command = "60s" must be shorter than timing\.step/],
    ["reward ≥ lease", ["timing.reward=60s"], /timing\.reward = "60s" must be shorter than timing\.lease/],
    [
      "a lease shorter than what rollouts get before they are given up",
      ["timing.dead_after=45s"],
      /1\.5 times timing\.dead_after = "45s" must be shorter than timing\.lease = "60s".*; raise timing\.lease/,
    ],
    [
      "a hang longer than a lease",
      ["timing.lease=40s"],
      /health\.hung_max = "45s" must be shorter than timing\.lease = "40s".*; raise timing\.lease or lower health/,
    ],
    [
      "checks longer than their interval",
      ["health.timeout=10s", "timing.pull=50s"],
      /health\.timeout = "10s" must be shorter than health\.interval = "10s"/,
    ],
    [
      "checks that outlast a pull",
      ["health.failure_threshold=4"],
      /health\.interval = "10s" times health\.failure_threshold, .* must be shorter than timing\.pull = "40s"/,
    ],
    ["bounds of a hang the wrong way", ["health.hung_min=46s"], /health\.hung_min = "46s" must not be longer than/],
    [
      "a grace shorter than a hang",
      ["health.grace=40s"],
      /health\.hung_max = "45s" must not be longer than health\.grace/,
    ],
    [
      "a hang longer than a step",
      ["health.hung_max=60s", "timing.lease=90s"],
      /health\.hung_max = "60s" must be shorter than timing\.step/,
    ],
    ["slow probes", ["health.probe_timeout=4s"], /three times health\.probe_timeout = "4s" must be shorter than/],
    [
      "too many missed beats",
      ["health.missed_beats=10"],
      /health\.missed_beats = "10" times timing\.heartbeat_interval/,
    ],
    [
      "an impatient watchdog",
      ["health.progress=1m"],
      /timing\.step = "60s" must be shorter than health\.progress = "1m"/,
    ],
    ["sync with staleness", ["job.staleness_max=2"], /job\.mode = "sync" and job\.staleness_max = "2" disagree/],
    [
      "async without",
      ["job.mode=async", "job.staleness_max=0"],
      /job\.mode = "async" and job\.staleness_max = "0" disagree/,
    ],
    [
      "waiting for too many policies",
      ["init_replicas.policy=2"],
      /init_replicas\.policy = "2" must not be over replicas\.policy = 1/,
    ],
    ["waiting for too many rollouts", ["init_replicas.rollout=2"], /init_replicas\.rollout = "2" must not be over/],
    [
      "more policies than micro-shards",
      ["replicas.policy=9"],
      /batch\.micro_shards = 8 must be at least replicas\.policy = "9"/,
    ],
    [
      "more minibatches than groups",
      ["batch.groups_per_step=1"],
      /batch\.minibatches = 2 must not be over batch\.groups_per_step = "1"/,
    ],
    [
      "responses longer than the context",
      ["sampling.max_new_tokens=36"],
      /sampling\.max_new_tokens = "36" leaves no room .* task\.name = "dates"; lower/,
    ],
    [
      "chunks over leases",
      ["limits.chunk_groups=33"],
      /limits\.chunk_groups = "33" must not be over limits\.lease_groups = 32/,
    ],
    [
      "groups that come in more pieces than can be named",
      ["batch.group_size=256", "rollout.fan_out=16", "batch.minibatches=1", "limits.message_bytes=100B"],
      /limits\.message_bytes = "100B" cuts groups of up to 2\.0 MiB with batch\.group_size = "256" into more than 16384 pieces; raise limits\.message_bytes to 1KiB/,
    ],
    [
      "steps that do not fit into the groups stream",
      ["batch.groups_per_step=4096", "batch.group_size=96", "rollout.fan_out=16"],
      /batch\.groups_per_step = "4096" makes up to 3\.0 GiB in the steps that are sampled at a time \(1\), and the groups stream holds limits\.groups_bytes = "2GiB"; raise limits\.groups_bytes to \d+MiB where the broker has that much room, or lower batch\.groups_per_step to 2\d+$/,
    ],
    [
      "a groups stream that is too small for one group",
      ["limits.groups_bytes=8MiB", "batch.group_size=256", "rollout.fan_out=64", "batch.groups_per_step=2"],
      /batch\.groups_per_step = "2" makes up to .* and the groups stream holds limits\.groups_bytes = "8MiB"; raise limits\.groups_bytes to \d+MiB where the broker has that much room: not even one group fits$/,
    ],
    ["evaluations of nothing", ["evaluation.prompts=0"], /evaluation\.every_steps = 50 asks for evaluations/],
  ])("refuses %s, naming both keys, both values and a fix", (_, set, expected) => {
    const found = faults(minimal, { set });
    expect(found).toEqual([expect.stringMatching(expected)]);
    expect(found[0]).toContain("; ");
  });

  test("checks the durations of a compiled configuration by themselves", () => {
    const { config } = load(minimal);
    expect(validateTiming(config)).toEqual([]);
    const broken = { ...config, timing: { ...config.timing, deadAfterMs: 2_000 } };
    expect(validateTiming(broken)[0]).toMatch(
      /timing\.suspect_after = 3\.0 s must be shorter than timing\.dead_after = 2\.0 s/,
    );
  });

  test("lists every fault at once, and no relation of a value that is faulty itself", () => {
    const text = `${minimal}[timing]\nsuspect_after = "soon"\nstepp = "1s"\ndead_after = "500ms"\n`;
    const found = faults(text, {
      env: { MUSTER_BATCH_GROUPSIZE: "8", MUSTER_NATS_URL: "nats://somewhere", MUSTER_BATCH_MINIBATCHES: "two" },
      set: ["model.heads", "limits.outbax=1", "batch.group_size=0"],
    });
    expect(found).toEqual([
      expect.stringMatching(/timing\.stepp = "1s" is not a known key; did you mean timing\.step\?/),
      expect.stringMatching(/^env:MUSTER_BATCH_GROUPSIZE: .* did you mean MUSTER_BATCH_GROUP_SIZE\?/),
      expect.stringMatching(/^flag: --set "model\.heads" has no value/),
      expect.stringMatching(/^flag: limits\.outbax = "1" is not a known key; did you mean limits\.outbox\?/),
      expect.stringMatching(/^env:MUSTER_BATCH_MINIBATCHES: batch\.minibatches = "two": must be a whole number/),
      expect.stringMatching(/timing\.suspect_after = "soon": "soon" is not a duration/),
      expect.stringMatching(/^flag: batch\.group_size = "0": expected number to be >=1/),
      expect.stringMatching(/timing\.dead_after = "500ms" must be at least three times timing\.heartbeat_interval/),
      expect.stringMatching(
        /three times health\.probe_timeout = "1s" must be shorter than timing\.dead_after = "500ms"/,
      ),
      expect.stringMatching(/health\.missed_beats = 5 times timing\.heartbeat_interval must be shorter than/),
    ]);
  });

  test("accepts the job files that are shipped", () => {
    const jobs = fileURLToPath(new URL("../../../jobs/", import.meta.url));
    const shipped = readdirSync(jobs).filter((name) => name.endsWith(".toml"));
    expect(shipped).toEqual(expect.arrayContaining(["addition.toml", "dates.toml"]));
    for (const name of shipped) {
      const { config } = loadJob({ file: join(jobs, name), env: {}, describeTask, engines });
      expect(config.weights, name).toEqual({ kind: "folder", path: join(jobs, `warm-start/${config.job}`) });
      expect(config.steps).toBe(250);
    }
  });
});
