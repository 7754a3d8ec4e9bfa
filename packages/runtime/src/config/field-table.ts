/** The rows of the table of keys. Each row: how it is written, default, what it is. */
import { toolParserNames } from "@muster/base";
import { perRole, promptsTask, type ReplicaRole, traitsOf } from "@muster/protocol";
import { agentFields } from "./agent-fields.ts";
import { type Field, isPathOfModule, type Scalar } from "./field.ts";
import { type Row, section } from "./field-section.ts";
import { scorerFields } from "./scorer-fields.ts";
import { broughtBy, trainingFields } from "./training-fields.ts";

const titled = (role: ReplicaRole): string => {
  const { title } = traitsOf(role);
  return `${title.charAt(0).toUpperCase()}${title.slice(1)}`;
};

/** What is run, by how many, on what. */
export const runFields: readonly Field[] = [
  section(
    "job",
    {
      name: ["text", "job", "Name of the job: a-z, 0-9 and -.", "job"],
      seed: ["integer", 1, "Seed of every random stream.", "seed"],
      steps: ["integer", 250, "Steps to commit.", "steps"],
      mode: ["text", "sync", "sync trains on the newest weights only; async overlaps sampling and training.", "mode"],
      staleness_max: [
        "integer",
        (read) => (read("job.mode") === "async" ? 1 : 0),
        "Oldest weights that may still be trained on, in versions; 0 in sync, 1 or more in async.",
        "stalenessMax",
      ],
      agreement: [
        "text",
        "state",
        "What trainers must agree on before a step is committed: state, weights, or leader for engines that do not repeat their bits.",
        "agreement",
      ],
    },
    ["name"],
  ),
  section(
    "replicas",
    perRole<Row>((role) => ["integer", 1, `${titled(role)}s that the nodes run, until muster scale says otherwise.`]),
  ),
  section("init_replicas", {
    policy: ["integer", 1, "Policy replicas that must be there before training starts."],
    rollout: ["integer", 1, "Rollout replicas that must be there before sampling starts."],
  }),
  section("min_replicas", {
    policy: ["integer", 1, "Healthy policy replicas below which an alarm says what is missing."],
    rollout: ["integer", 1, "Healthy rollout replicas below which an alarm says what is missing."],
  }),
  section(
    "task",
    {
      name: [
        "module",
        "task",
        "Task that prompts come from: dates, addition, prompts (of files, see below), or the path of a module.",
      ],
      reward: [
        "reward",
        (read) => (isPathOfModule(read("task.name")) ? read("task.name") : "exact-match"),
        "Reward that scores a response: exact-match, the path of a module or of a program, the http address of a service, or worker (reward.worker); default exact-match, or that of the task's module.",
      ],
    },
    ["name"],
  ),
  section("prompts", {
    train: [
      "optional-path",
      "",
      "Training prompts of the task prompts: a .jsonl or .parquet file, or the folder of a Hugging Face dataset.",
    ],
    train_split: ["text", "train", "Split of the folder that training prompts come from."],
    held_out: ["optional-path", "", "Held-out prompts, as prompts.train; empty for no evaluation."],
    held_out_split: ["text", "test", "Split of the folder that held-out prompts come from."],
    prompt_column: ["text", "prompt", "Column with the question: text, or a list of messages with role and content."],
    answer_column: ["optional-text", "answer", "Column with the right answer; empty where a reward needs none."],
    tokenizer: ["optional-path", "", "Folder of a Hugging Face tokenizer: tokenizer.json and what lies beside it."],
    chat: ["boolean", true, "Whether the tokenizer's chat template is used where it has one."],
    max_tokens: ["integer", 1024, "Longest prompt, in tokens."],
    overlong: ["text", "refuse", "What becomes of a longer prompt: refuse it, or truncate its beginning."],
    shuffle: [
      "boolean",
      true,
      "Whether each epoch has an order of its own, drawn from job.seed; else the order of the rows.",
    ],
  }),
  section("rollout", {
    generate: ["optional-module", "", "Path of a module that generates a sample; empty for the engine's own way."],
    tool_parser: [
      "optional-text",
      "",
      `Form in which the model writes calls of tools: ${toolParserNames.join(" or ")}; empty for that of its chat template.`,
    ],
    fan_out: ["integer", 1, "Responses that one sample gives; a module that returns another number is at fault."],
    ranks: [
      "integer",
      1,
      "Ranks of a rollout replica: threads or processes that share its model; whether an engine takes it, it says itself.",
    ],
  }),
  agentFields,
  scorerFields,
  section(
    "processes",
    perRole<Row>((role) => {
      const { title } = traitsOf(role);
      return [
        "integer",
        1,
        `Processes of a ${title}, which start, are placed and end as one; its engine must be made for it.`,
      ];
    }),
  ),
  section(
    "devices",
    perRole<Row>((role) => {
      const { title, hasRanks } = traitsOf(role);
      return [
        "integer",
        0,
        `GPUs of each ${hasRanks ? "rank" : "process"} of a ${title} that no other process gets; 0 for none.`,
      ];
    }),
  ),
  section("weights", {
    source: ["source", "seed", "Initial weights: seed, seed:NUMBER, folder:PATH or checkpoint:PATH.", "weights"],
  }),
].flat();

/** What is computed. */
export const engineFields: readonly Field[] = [
  section("engine", {
    kind: [
      "module",
      "embedded",
      "Engine of the trainers: embedded, worker (a program), or the path of a module.",
      "engine.policy.adapter",
    ],
    rollout: [
      "module",
      (read) => read("engine.kind"),
      "Engine of the samplers, where it is another one than engine.kind: also openai, sglang and vllm (inference servers).",
      "engine.rollout.adapter",
    ],
  }),
  section("sampling", {
    temperature: ["number", 1, "Sampling temperature."],
    max_new_tokens: ["integer", 16, "Longest response, in tokens."],
  }),
  trainingFields,
  section("batch", {
    groups_per_step: ["integer", 128, "Prompts of a step."],
    group_size: ["integer", broughtBy("groupSize"), "Trajectories per prompt; of sft 1."],
    minibatches: ["integer", broughtBy("minibatches"), "Optimizer updates of a step; of rloo and sft 1."],
    micro_shards: [
      "integer",
      8,
      "Parts of a minibatch that replicas share out; fixed, so results do not depend on replicas.",
    ],
  }),
  section("loss", {
    clip_low: ["number", broughtBy("clipLow"), "How far below 1 the probability ratio counts; rloo and sft have none."],
    clip_high: [
      "number",
      broughtBy("clipHigh"),
      "How far above 1 the probability ratio counts; rloo and sft have none.",
    ],
  }),
  section("optimizer", {
    lr: ["number", 1e-3, "Learning rate."],
    lr_warmup_steps: ["integer", 5, "Steps over which the learning rate rises."],
    lr_final_ratio: ["number", 0.1, "Share of the learning rate left at the last step."],
    lr_schedule: [
      "text",
      "linear",
      "How the learning rate falls to that share: linear, cosine, inverse_sqrt (not below it), or constant, which stays.",
    ],
    beta1: ["number", 0.9, "AdamW decay of the first moment."],
    beta2: ["number", 0.99, "AdamW decay of the second moment."],
    epsilon: ["number", 1e-8, "AdamW epsilon."],
    weight_decay: ["number", 0, "AdamW weight decay."],
    clip_norm: ["number", 1, "Largest norm of a gradient."],
  }),
].flat();

/** Nothing is held out of the prompts of files unless somebody says so, and of a module's nobody knows yet. */
const hasHeldOut = (read: (key: string) => Scalar): boolean =>
  read("task.name") === promptsTask ? Boolean(read("prompts.held_out")) : !isPathOfModule(read("task.name"));

/** What is measured and kept. */
export const checkpointFields: readonly Field[] = [
  section("evaluation", {
    every_steps: ["integer", (read) => (hasHeldOut(read) ? 50 : 0), "Steps between evaluations; 0 for none."],
    prompts: ["integer", (read) => (hasHeldOut(read) ? 512 : 0), "Held-out prompts of an evaluation."],
    loss_rows: [
      "integer",
      0,
      "Held-out rows of which trainers measure the loss after each such step and the last one, in sft; 0 for none.",
    ],
  }),
  section("samples", {
    groups: ["integer", 1, "Groups of each step whose responses are shown: those of the first prompts; 0 for none."],
    responses: ["integer", 2, "Responses of such a group that are shown."],
    text_chars: ["integer", 1000, "Characters of a prompt or response that are shown."],
  }),
  section("checkpoint", {
    every_steps: ["integer", 50, "Steps between checkpoints; 0 for the last one only."],
    keep: ["integer", 2, "Newest checkpoints kept; the best one at held-out prompts stays besides."],
    quorum: [
      "integer",
      1,
      "Hosts that must have a checkpoint before it counts: before it is said to be durable and what it replaces may go.",
    ],
    shards: [
      "integer",
      1,
      "Files that one checkpoint is written in at once, each by another checkpoint actor, in one folder that all of them see; 1: each actor writes the whole.",
    ],
    directory: ["path", (read) => `.muster/checkpoints/${read("job.name")}`, "Folder of the job's checkpoints."],
    memory_every: [
      "integer",
      1,
      "Steps after which checkpoint actors take the training state into memory, where it fits: what losing every trainer costs; 0 for never.",
    ],
  }),
].flat();

/** How long things may take. */
export const timingFields: readonly Field[] = section("timing", {
  heartbeat_interval: ["duration", "1s", "Time between heartbeats of a replica."],
  suspect_after: ["duration", "3s", "Silence after which a replica gets no new work."],
  dead_after: ["duration", "10s", "Silence after which a replica is out for good."],
  gather: ["duration", "5m", "How long a start waits for the initial replicas before it raises an alarm."],
  command: ["duration", "5s", "Time for a command to be answered before it is sent again."],
  lease: ["duration", "60s", "Time a rollout replica has for leased groups."],
  save: [
    "duration",
    "5s",
    "Time between two saves of the responses that a rollout replica draws: what its death costs.",
  ],
  step: ["duration", "60s", "Time for all members to vote on a step."],
  collective: ["duration", "30s", "Time for one collective operation."],
  mesh: ["duration", "10s", "Time for all members to join a new mesh."],
  pull: ["duration", "40s", "Time to pull a weight version."],
  checkpoint: ["duration", "60s", "Time to pull, write and verify a checkpoint, and to read one that is restored."],
  reward: ["duration", "5s", "Time to score one trajectory."],
  generate: ["duration", "20s", "Time for a module or an agent to generate one sample."],
  drain: ["duration", "30s", "Time a leaving replica has to finish or hand back its work."],
  join: [
    "duration",
    "1s",
    "Window in which joining policy replicas are gathered into one epoch; up to as long again while one still pulls the weights or is suspected.",
  ],
  tick: ["duration", "200ms", "Time between looks at deadlines."],
});

/** Who is taken for ill, and when. */
export const healthFields: readonly Field[] = section("health", {
  first_wait: ["duration", "300s", "Grace of an engine that is still starting before its failed health checks count."],
  interval: ["duration", "10s", "Time between health checks of a rollout's engine; each generates a token."],
  timeout: ["duration", "5s", "Time for one health check of an engine."],
  failure_threshold: [
    "integer",
    3,
    "Failed health checks in a row after which a rollout replica is evicted and starts again.",
  ],
  phi: ["number", 8, "Level of suspicion at which a silent replica is suspected."],
  missed_beats: ["integer", 5, "Heartbeats missed in a row that make a replica suspect whatever the level."],
  probe_timeout: ["duration", "1s", "Time for a suspected replica to answer a probe; three are sent."],
  hung_min: ["duration", "20s", "Least time without progress before a replica that beats is taken for hung."],
  hung_max: ["duration", "45s", "Most time without progress before a replica that beats is taken for hung."],
  grace: ["duration", "10m", "The same while it loads, builds, compiles or initialises."],
  readmit_after: [
    "duration",
    "5s",
    "Base of the time a replica stays out after an eviction: doubled by each one in the same hour, at most 10m.",
  ],
  progress: ["duration", "5m", "Time without a committed step or a finished group before the watchdog acts."],
});

/** Bounds, and where bytes go. */
export const planeFields: readonly Field[] = [
  section("limits", {
    step_attempts: [
      "integer",
      5,
      "Attempts at one step before the job fails; one that lost a trainer counts a quarter.",
      "limits.stepAttemptsMax",
    ],
    lease_groups: [
      "integer",
      32,
      "Groups in one lease; a sampler that gets its whole share of a step at once has it as one lease.",
      "limits.leaseGroupsMax",
    ],
    leases_per_rollout: ["integer", 2, "Leases one rollout replica may hold."],
    chunk_groups: ["integer", 32, "Groups a rollout replica generates in one go."],
    message_bytes: [
      "size",
      "512KiB",
      "Size of a message of the groups stream, at most; what is larger comes in pieces.",
      "limits.messageBytes",
    ],
    groups_bytes: [
      "size",
      "2GiB",
      "What the groups stream holds: finished and begun groups until a checkpoint covers them.",
      "limits.groupsBytes",
    ],
    mailbox: ["integer", 10_000, "Inputs that may wait in the controller's mailbox.", "limits.mailboxMax"],
    outbox: ["integer", 10_000, "Messages of the controller that may wait for the broker.", "limits.outboxMax"],
    snapshot_records: ["integer", 10_000, "Records of the journal from one snapshot of the controller to the next."],
    module_memory: [
      "size",
      "1GiB",
      "Memory of its own that the process of a module (task.reward, rollout.generate) may have, with what it starts; 0B for no limit.",
      "limits.moduleBytes",
    ],
  }),
  section("data", {
    socket_directory: ["path", (read) => `/tmp/muster-${read("job.name")}`, "Folder of the data plane's Unix sockets."],
    tcp_host: [
      "optional-text",
      "",
      "Address, or network such as 10.0.0.0/8, that weights are served on; empty for this host only.",
    ],
    slots: ["integer", 3, "Weight versions a replica can hold or receive at once."],
    delta: [
      "text",
      "auto",
      "Whether versions cross between hosts as what changed: never, always, or auto where that was faster.",
    ],
    delta_anchor_every: ["integer", 25, "Every so many versions one crosses between hosts whole; 0 for none."],
    delta_keep: [
      "integer",
      4,
      "Versions whose deltas a holder remembers, for readers that are several versions behind.",
    ],
  }),
  section("network", {
    alive: ["duration", "50ms", "How often an end of the data plane that has nothing to say says that it lives."],
    answer: [
      "duration",
      "500ms",
      "Silence after which a holder of weights is left, where the round trip explains no longer one.",
    ],
    connect: ["duration", "1500ms", "Time until a call is given up; a lost first packet is sent again after a second."],
    starved: ["duration", "2s", "Time until a holder that lives and gets no bytes itself is left."],
    stall: ["duration", "5s", "Time until an end that takes no byte is dropped."],
    host_silence: ["duration", "1s", "Silence after which a host of a gradient mesh is lost."],
    mesh_call: ["duration", "2s", "Time until a call at another host of a forming mesh is made again."],
    handshake: ["duration", "5s", "Time for all that a caller says before its request."],
  }),
].flat();
