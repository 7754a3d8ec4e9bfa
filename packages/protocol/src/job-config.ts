/**
 * The configuration of a job as it travels: compiled, with every default filled in and units in the names. The TOML file,
 * its environment and flags are the business of the runtime; here is only what all actors agree on.
 */
import { toolParserNames } from "@muster/base";
import { z } from "zod";
import { devicesMax } from "./devices.ts";
import { countSchema, protocolMinor } from "./envelope.ts";
import { failurePolicySchema } from "./failure.ts";
import { idSchema } from "./ids.ts";
import { shardsMax } from "./messages/parts.ts";
import { weightSourceSchema } from "./messages/weights.ts";
import { withoutUnknown } from "./newer.ts";
import { groupsMessageBytesMax } from "./pieces.ts";
import { ranksMax } from "./ranks.ts";
import { perRole } from "./role-table.ts";
import { scorersSchema } from "./scorer-config.ts";
import { lrSchedules, trainingSchema } from "./training.ts";

/** Most groups of a step. */
export const groupsPerStepMax = 4096;

/** Most updates of a step. */
export const minibatchesMax = 64;

const positive = z.number().positive();
const atLeastOne = z.number().int().min(1);
const rankDevices = z.number().int().min(0).max(devicesMax);

/** The times of the data plane where nobody says otherwise; the table with their reasons is `native/src/core/limits.h`. */
export const networkDefaults = {
  aliveMs: 50,
  answerMs: 500,
  connectMs: 1_500,
  starvedMs: 2_000,
  stallMs: 5_000,
  hostSilenceMs: 1_000,
  meshCallMs: 2_000,
  handshakeMs: 5_000,
} as const;

/** What of a step is shown to people where nobody says otherwise. */
export const samplesDefaults = { groups: 1, responses: 2, textChars: 1_000 } as const;

/** Most groups of a step, responses of a group and characters of a text that may be shown: what is shown goes through the controller. */
export const samplesMax = { groups: 16, responses: 8, textChars: 4_000 } as const;

/** Which engine computes in a role, and what its own table says; only the engine reads that. */
const engineChoiceSchema = z.strictObject({
  /** Name of a built-in one, or the absolute path of a module. */
  adapter: z.string().min(1).max(4096),
  options: z.record(z.string().min(1).max(64), z.union([z.string().max(4096), z.number(), z.boolean()])),
});

/** The task whose prompts are rows of files. */
export const promptsTask = "prompts";

const path = z.string().min(1).max(4096);

/** Prompts of files, and what was found in them when the job was made: every sampler must find the same. */
const promptsSchema = z.strictObject({
  /** Absolute path of a file of rows, or of a folder of them. */
  train: path,
  trainSplit: z.string().min(1).max(64),
  /** `null`: nothing is held out. */
  heldOut: path.nullable(),
  heldOutSplit: z.string().min(1).max(64),
  promptColumn: z.string().min(1).max(256),
  /** `null`: a reward needs none. */
  answerColumn: z.string().min(1).max(256).nullable(),
  /** Absolute path of the tokenizer's folder. */
  tokenizer: path,
  /** Whether the tokenizer's chat template is used where it has one. */
  chat: z.boolean(),
  /** Longest prompt. */
  maxTokens: atLeastOne,
  overlong: z.enum(["refuse", "truncate"]),
  /** Whether each epoch has an order of its own, from the job's seed. */
  shuffle: z.boolean(),
  /** Of all rows and the rules that make prompts of them. */
  digest: z.string().min(1).max(64),
  vocab: atLeastOne,
  tokenizerDigest: z.string().min(1).max(64),
});

/** A program that is started for each sample and asks the model at a base URL of its own. */
const agentSchema = z.strictObject({
  /** Program and arguments, by spaces, quoted where they have some. */
  command: z.string().min(1).max(4096),
  /** Absolute path of the folder that it starts in. */
  directory: path,
  /** `NAME=value`, by spaces; `null` for nothing besides. */
  environment: z.string().max(4096).nullable(),
  /** Who judges an episode. */
  reward: z.enum(["session", "task"]),
  /** Agents of one replica at the same time. */
  atOnce: atLeastOne.max(256),
  /** 0 for no limit. */
  memoryBytes: countSchema,
  outputBytes: atLeastOne,
});

/** What was found in the module of a task when the job was made: every sampler must find the same. */
const taskModuleSchema = z.strictObject({
  /** Of its file, its tokenizer and its first prompts. */
  digest: z.string().min(1).max(64),
  vocab: atLeastOne,
  tokenizerDigest: z.string().min(1).max(64),
  /** Longest prompt. */
  maxTokens: atLeastOne,
});

/**
 * What trainers must agree on: the digests of their whole state, those of the weights that samplers get, or nothing, so that the first rank's result
 * counts. Whoever has other bytes than those that are committed pulls them, at every level.
 */
const agreementLevels = ["state", "weights", "leader"] as const;

const compiledSchema = z.strictObject({
  job: idSchema,
  seed: countSchema,
  /** Steps to commit. */
  steps: atLeastOne,
  /** `sync` is staleness 0: the run is a function of seed, config and engine build. */
  mode: z.enum(["sync", "async"]),
  stalenessMax: countSchema,
  /** What trainers must agree on before a step is committed; absent: `state`. */
  agreement: z.enum(agreementLevels).optional(),
  replicas: z.strictObject(perRole(() => countSchema)),
  initReplicas: z.strictObject({ policy: atLeastOne, rollout: atLeastOne }),
  /** Healthy replicas below which the job says what is missing. */
  minReplicas: z.strictObject({ policy: countSchema, rollout: countSchema }),
  /** Each is the name of a built-in one, or the absolute path of a module; a reward also that of a program, an address, or `worker`. */
  task: z.strictObject({ name: path, reward: path }),
  /** There where the task is a module. */
  taskModule: taskModuleSchema.optional(),
  /** Where prompts come from that are read and not made; absent in built-in tasks. */
  prompts: promptsSchema.optional(),
  rollout: z.strictObject({
    /** Absolute path of the module that generates a sample; `null` for the engine's own way. */
    generate: z.string().min(1).max(4096).nullable(),
    /** Responses that one sample gives; declared, never inferred. */
    fanOut: atLeastOne.max(64),
    /** Ranks of a rollout replica: threads that share its model by tensor parallelism. */
    ranks: atLeastOne.max(64),
    /** The program that generates a sample, started for each; absent: none. */
    agent: agentSchema.optional(),
    /** Form in which the model writes calls of tools; `null` or absent: that of its chat template. */
    toolParser: z.enum(toolParserNames).nullish(),
  }),
  /** Programs that score what was drawn; absent: none. */
  scorers: scorersSchema.optional(),
  /** Processes of a replica, by role, each with a rank; absent: one. */
  processes: z.strictObject(perRole(() => atLeastOne.max(ranksMax))).optional(),
  /** Devices of each rank of a replica, by role; absent: none. */
  devices: z.strictObject(perRole(() => rankDevices)).optional(),
  weights: weightSourceSchema,
  /** What all need to know of the model; its engine says it. */
  model: z.strictObject({ vocab: atLeastOne, maxContext: atLeastOne }),
  engine: z.strictObject({ policy: engineChoiceSchema, rollout: engineChoiceSchema }),
  batch: z.strictObject({
    groupsPerStep: atLeastOne.max(groupsPerStepMax),
    /** At least 2, but for supervised fine-tuning, which has 1. */
    groupSize: atLeastOne.max(256),
    minibatches: atLeastOne.max(minibatchesMax),
    /** Gradient micro-shards of a minibatch; fixed, so that the sum does not depend on who computes them. */
    microShards: atLeastOne.max(256),
  }),
  sampling: z.strictObject({ temperature: positive, maxNewTokens: atLeastOne }),
  loss: z.strictObject({ clipLow: positive, clipHigh: positive }),
  /** Absent in jobs that were begun before there was a choice: GRPO with nothing added. */
  training: trainingSchema.optional(),
  optimizer: z.strictObject({
    lr: positive,
    lrWarmupSteps: countSchema,
    /** Share of `lr` left at the last step. */
    lrFinalRatio: z.number().positive().max(1),
    /** How it falls; absent: linearly. */
    lrSchedule: z.enum(lrSchedules).optional(),
    beta1: z.number().min(0).lt(1),
    beta2: z.number().min(0).lt(1),
    epsilon: positive,
    weightDecay: z.number().min(0),
    clipNorm: positive,
  }),
  evaluation: z.strictObject({
    everySteps: countSchema,
    prompts: countSchema,
    /** Held-out rows that trainers measure the loss on, in supervised fine-tuning; absent: none. */
    lossRows: countSchema.optional(),
  }),
  checkpoint: z.strictObject({
    everySteps: countSchema,
    keep: atLeastOne,
    /** Hosts that must have a checkpoint before it counts; absent: one. */
    quorum: atLeastOne.max(64).optional(),
    /** Actors that write one checkpoint together, a shard each; absent: each actor writes a whole one. */
    shards: atLeastOne.max(shardsMax).optional(),
    directory: z.string().min(1).max(4096),
    /** Steps after which checkpoint actors take the training state into memory anew; 0: never. */
    memoryEvery: countSchema.default(0),
  }),
  timing: z.strictObject({
    heartbeatIntervalMs: positive,
    suspectAfterMs: positive,
    deadAfterMs: positive,
    gatherMs: positive,
    commandMs: positive,
    leaseMs: positive,
    /** Time between two saves of the responses that are being drawn. */
    saveMs: positive,
    stepMs: positive,
    collectiveMs: positive,
    meshMs: positive,
    pullMs: positive,
    checkpointMs: positive,
    rewardMs: positive,
    generateMs: positive,
    drainMs: positive,
    /** Window in which joins of policy replicas are gathered into one epoch. */
    joinMs: z.number().nonnegative(),
    tickMs: positive,
  }),
  /** Who is taken for ill, and when; the times between beats and until death are those of `timing`. */
  health: z.strictObject({
    /** Grace of a starting engine before its health checks count. */
    firstWaitMs: positive,
    /** Time between deep health checks of a rollout's engine. */
    intervalMs: positive,
    timeoutMs: positive,
    /** Failed checks in a row after which the replica is evicted. */
    failureThreshold: atLeastOne,
    /** Suspicion level (φ) of a silent replica. */
    phi: positive,
    missedBeats: atLeastOne,
    probeTimeoutMs: positive,
    /** Bounds of three times the usual length of a phase: without progress for longer, a replica hangs. */
    hungMinMs: positive,
    hungMaxMs: positive,
    /** The same for loading, building, compiling and initialising. */
    graceMs: positive,
    /** The n-th eviction in an hour keeps a replica out for 2ⁿ times this, at most ten minutes. */
    readmitAfterMs: positive,
    /** Time without a committed step or a finished group before the watchdog acts. */
    progressMs: positive,
  }),
  limits: z.strictObject({
    stepAttemptsMax: atLeastOne,
    leaseGroupsMax: atLeastOne.max(1024),
    leasesPerRollout: atLeastOne.max(16),
    /** Groups that a rollout replica generates in one go. */
    chunkGroups: atLeastOne.max(1024),
    /** Bytes of one message of the groups stream; what is larger comes in pieces. */
    messageBytes: atLeastOne.max(groupsMessageBytesMax).default(512 * 1024),
    /** Bytes that the groups stream holds. */
    groupsBytes: atLeastOne.default(2 * 1024 ** 3),
    mailboxMax: atLeastOne,
    outboxMax: atLeastOne,
    /** Records of the journal from one snapshot to the next. */
    snapshotRecords: atLeastOne,
    /** Bytes of memory that the process of a module may have, with what it starts; 0 for no limit. Absent in jobs that were begun without it: 1 GiB. */
    moduleBytes: countSchema.optional(),
  }),
  failure: failurePolicySchema,
  /** How long the data plane waits for the network. A job that was begun before there was this table has the defaults. */
  network: z
    .strictObject({
      /** How often an end that has nothing to say says that it lives. */
      aliveMs: positive,
      /** Shortest silence that loses a holder of weights, besides what the round trip explains. */
      answerMs: positive,
      /** Until a call is given up. */
      connectMs: positive,
      /** Until a holder that lives and gets nothing itself is left. */
      starvedMs: positive,
      /** Until an end that takes no byte is dropped. */
      stallMs: positive,
      /** Silence that loses a host of a gradient mesh. */
      hostSilenceMs: positive,
      /** Until a call at another host of a forming mesh is made again. */
      meshCallMs: positive,
      /** For all that a caller says before its request. */
      handshakeMs: positive,
    })
    .default(networkDefaults),
  /** Responses of each step that people can read. */
  samples: z
    .strictObject({
      groups: z.number().int().min(0).max(samplesMax.groups),
      responses: z.number().int().min(1).max(samplesMax.responses),
      textChars: z.number().int().min(16).max(samplesMax.textChars),
    })
    .default(samplesDefaults),
  data: z.strictObject({
    /** Folder of the data plane's Unix sockets. */
    socketDirectory: z.string().min(1).max(80),
    /**
     * Address that policy replicas serve TCP pulls on, or a network in which every replica, rollouts too, serves on its host's address; `null`
     * serves this host only.
     */
    tcpHost: z.string().max(128).nullable(),
    slots: z.number().int().min(2).max(16),
    /** When versions cross between hosts as what changed since another one: never, always, or where that was faster. */
    delta: z.enum(["never", "auto", "always"]),
    /** Every so many versions one crosses whole, whatever pays; 0: none. */
    deltaAnchorEvery: z.number().int().min(0).max(1_000_000),
    /** Deltas that a holder remembers. */
    deltaKeep: z.number().int().min(0).max(64),
  }),
});

/**
 * Schema of the compiled job configuration. One of a job that was begun before engines had tables of their own has the shape of its model beside the
 * vocabulary: that is the table of the embedded engine.
 */
export const jobConfigSchema = z.preprocess((given) => withEngine(given), compiledSchema);

/** The compiled configuration of a job. */
export type JobConfig = z.infer<typeof jobConfigSchema>;

/** What a controller says that its job is, checked. Of one of a newer minor version fields are left aside that are not known here. Pure. */
export function readJobConfig(value: unknown, minor = 0): z.ZodSafeParseResult<JobConfig> {
  const read = jobConfigSchema.safeParse(value);
  if (read.success || minor <= protocolMinor) return read;
  return compiledSchema.safeParse(withoutUnknown(compiledSchema, withEngine(value)));
}

function withEngine(given: unknown): unknown {
  if (typeof given !== "object" || given === null || "engine" in given || !("model" in given)) return given;
  const model: unknown = given.model;
  if (typeof model !== "object" || model === null) return given;
  const { vocab, maxContext, ...shape } = model as Record<string, unknown>;
  const options = Object.fromEntries(
    Object.entries(shape).map(([name, value]) => [name === "kvHeads" ? "kv_heads" : name, value]),
  );
  const embedded = { adapter: "embedded", options };
  return { ...given, model: { vocab, maxContext }, engine: { policy: embedded, rollout: embedded } };
}
