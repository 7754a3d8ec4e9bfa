/** The failpoints by name, per role. Where each lies: `before-publish` and `after-publish` around the broker's store, `on` and `before-ack` around handling, the rest around work. */

const wire = (role: string, said: readonly string[], heard: readonly string[]): readonly string[] => [
  ...said.flatMap((kind) => [`${role}.before-publish.${kind}`, `${role}.after-publish.${kind}`]),
  ...heard.flatMap((kind) => [`${role}.on.${kind}`, `${role}.before-ack.${kind}`]),
];

const disk = [
  "prepare",
  "mkdir",
  "create",
  "write",
  "sync",
  "close",
  "rename",
  "syncdir",
  "remove",
  "rmdir",
  "open",
  "read",
  "stat",
  "list",
];

const replica = {
  said: ["replica.register", "replica.draining", "replica.left"],
  heard: ["replica.registered", "replica.refused", "replica.fenced", "replica.stop"],
};

const reports = [
  "replica.register",
  "weights.held",
  "weights.failed",
  "weights.meta",
  "mesh.built",
  "mesh.failed",
  "groups.completed",
  "groups.saved",
  "groups.returned",
  "evals.completed",
  "step.voted",
  "checkpoint.saved",
  "checkpoint.failed",
  "replica.draining",
  "replica.left",
  "process.exited",
];
const orders = [
  "replica.registered",
  "weights.initialize",
  "weights.pull",
  "weights.publish",
  "mesh.build",
  "groups.lease",
  "step.run",
  "step.apply",
  "step.discard",
  "checkpoint.save",
  "replica.refused",
  "replica.fenced",
  "replica.stop",
];
const facts = [
  "job.started",
  "job.ended",
  "member.joined",
  "member.left",
  "member.suspected",
  "member.recovered",
  "member.hung",
  "member.died",
  "mesh.changed",
  "groups.released",
  "groups.resumed",
  "groups.aborted",
  "groups.quarantined",
  "step.committed",
  "step.retried",
  "step.skipped",
  "eval.finished",
  "checkpoint.kept",
  "alarm.raised",
];

/** Points at which a replica or the controller can be hit. */
const pointsOf: Readonly<Record<"controller" | "policy" | "rollout" | "checkpoint", readonly string[]>> = {
  controller: [
    "controller.before-journal",
    "controller.after-journal",
    "controller.before-snapshot",
    "controller.after-snapshot",
    "controller.before-replay",
    "controller.before-purge",
    "controller.after-purge",
    "controller.before-purge-journal",
    "controller.after-purge-journal",
    "controller.before-state-put",
    "controller.before-head",
    "controller.before-flush",
    ...wire("controller", [...orders, ...facts], reports),
  ],
  policy: [
    ...wire(
      "policy",
      [...replica.said, "weights.held", "weights.failed", "weights.meta", "mesh.built", "mesh.failed", "step.voted"],
      [
        ...replica.heard,
        ...[
          "weights.initialize",
          "weights.pull",
          "weights.publish",
          "mesh.build",
          "step.run",
          "step.apply",
          "step.discard",
        ],
      ],
    ),
    "policy.before-fetch",
    "policy.initialize",
    "policy.restore",
    "policy.begin",
    "policy.accumulate",
    "policy.stage",
    "policy.promote",
    "policy.promoted",
    "policy.discard",
    "policy.store-open",
    "policy.store-publish",
    "policy.store-published",
    "policy.pull-begin",
    "policy.pull-midway",
    "policy.pull-end",
    "policy.mesh-open",
    "policy.mesh-joined",
    "policy.reduce-begin",
    "policy.reduce-end",
    "policy.checkpoint-load",
    "policy.fs-stat",
    "policy.fs-open",
    "policy.fs-read",
    "policy.fs-close",
  ],
  rollout: [
    ...wire(
      "rollout",
      [
        ...replica.said,
        "weights.held",
        "weights.failed",
        "groups.batch",
        "groups.completed",
        "groups.saved",
        "groups.returned",
        "evals.completed",
      ],
      [...replica.heard, "weights.pull", "groups.lease"],
    ),
    "rollout.before-fetch",
    "rollout.store-open",
    "rollout.pull-begin",
    "rollout.pull-midway",
    "rollout.pull-end",
    "rollout.swap",
    "rollout.swapped",
    "rollout.generate",
    "rollout.generate-midway",
    "rollout.generated",
    "rollout.reward",
  ],
  checkpoint: [
    ...wire(
      "checkpoint",
      [...replica.said, "checkpoint.saved", "checkpoint.failed", "weights.held", "weights.failed"],
      [...replica.heard, "checkpoint.save", "weights.pull"],
    ),
    "checkpoint.store-open",
    "checkpoint.pull-begin",
    "checkpoint.pull-midway",
    "checkpoint.pull-end",
    ...disk.map((operation) => `checkpoint.fs-${operation}`),
  ],
};

/** Every failpoint of a job without nodes. */
export const points: readonly string[] = Object.values(pointsOf).flat();

/** What only jobs come to whose checkpoints are written in shards. */
export const shardPoints: readonly string[] = wire("checkpoint", ["shards.saved"], []).concat(
  wire("controller", [], ["shards.saved"]),
);

/** What only jobs come to whose trainers are several processes: in each of these. */
export const rankPoints: readonly string[] = ["policy.rank-ticket", "policy.rank-answer", "policy.rank-accumulate"];

/** What only jobs with a script beside them come to. */
export const barrierPoints: readonly string[] = [
  ...wire("controller", ["barrier.ended", "barrier.refused"], ["barrier.arrived"]),
  ...wire("rank", ["barrier.arrived"], []),
];

/** What only jobs with nodes come to. */
export const fleetPoints: readonly string[] = [
  ...wire(
    "controller",
    ["node.assign", "node.signal", "fleet.changed", "command.accepted", "command.done", "command.refused"],
    [
      ...["node.ready", "node.assigned", "node.signalled", "node.signs", "process.started", "process.retired"],
      ...["fleet.scale", "fleet.cordon", "fleet.uncordon", "command.cancel"],
      ...["replica.drain", "replica.replace", "replica.kill"],
    ],
  ),
  ...wire(
    "node",
    [
      ...replica.said,
      ...["node.ready", "node.assigned", "node.signalled", "node.signs"],
      ...["process.started", "process.exited", "process.retired"],
    ],
    [...replica.heard, "node.assign", "node.signal"],
  ),
  "node.keeper-clean",
  "node.keeper-start",
  "node.keeper-end",
];
