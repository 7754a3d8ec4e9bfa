import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { failureKinds } from "../failure.ts";
import { idSchema } from "../ids.ts";
import { samplesMax } from "../job-config.ts";
import { stepComponentSchema, stepComponentsMax } from "../judgement.ts";
import { defineMessages } from "./define.ts";
import { evidenceFields, memberFields } from "./health.ts";
import {
  causeCountSchema,
  commandFields,
  engineKindsMax,
  engineKindsSchema,
  engineSaidSchema,
  sectionSchema,
  textSchema,
  versionFields,
} from "./parts.ts";

const ledgerSchema = z.strictObject({
  admitted: countSchema,
  trained: countSchema,
  aborted: countSchema,
  quarantined: countSchema,
  pending: countSchema,
});

/** Counts of trajectories; `admitted = trained + aborted + quarantined + pending`, always (semantics 6.6). */
export type Ledger = z.infer<typeof ledgerSchema>;

/** Members whose versions a commit names: those that are furthest behind. */
const namedMax = 64;

const shareSchema = z.number().min(0).max(1);
const speedSchema = z.number().nonnegative();

/**
 * Figures of a commit that a trainer counted over the whole batch, or that follow from the tables at that moment. Each is absent where nobody
 * could say it: in journals of programs that did not, and where what a trainer says does not fit the receipts.
 */
const moreFigures = {
  /** Trainers that computed other bytes than the first rank, which the job's level of agreement allows. */
  drifted: countSchema.optional(),
  /** Largest distance of their weights from those of the first rank, as a share of these weights' norm; about. */
  drift: z.number().nonnegative().optional(),
  lr: z.number().nonnegative().optional(),
  /** |trained − sampled| log-probability before the first update of the step, nats: mean and maximum over the tokens of its first minibatch. */
  logprobGap: z.number().nonnegative().optional(),
  logprobGapMax: z.number().nonnegative().optional(),
  /** Loss per answer token on held-out rows under the weights of this commit, of steps after which it is measured. */
  heldOutLoss: z.number().optional(),
  /** KL to the reference policy, nats per response token, where the job has one. */
  klReference: z.number().optional(),
  /** Response tokens of a trajectory, and the share of those that ended because there was no room for more. */
  lengthMean: z.number().nonnegative().optional(),
  lengthMax: countSchema.optional(),
  truncated: shareSchema.optional(),
  /** Standard deviation of all rewards of the step, and the ends of their range. */
  rewardSpread: z.number().nonnegative().optional(),
  rewardLeast: z.number().optional(),
  rewardMost: z.number().optional(),
  /** Share of groups whose members have no advantage over each other. */
  evenGroups: shareSchema.optional(),
  /** The parts of rewards that their modules name, and how many names beyond these there were. */
  components: z.array(stepComponentSchema).min(1).max(stepComponentsMax).optional(),
  componentsMore: countSchema.optional(),
  /** How fast all trainers and all samplers together are while they work. */
  trainTokensPerS: speedSchema.optional(),
  sampleTokensPerS: speedSchema.optional(),
  /** What trainers and samplers held when the step was committed, who is furthest behind first; `null` when it was of another lineage, or nothing. */
  held: z
    .array(z.strictObject({ id: idSchema, version: countSchema.nullable() }))
    .max(namedMax)
    .optional(),
};

/** Ids of work: `<step>.<index>` of a group, `eval.<chunk>` of held-out prompts. */
const workIdsSchema = z.array(z.string().max(64)).max(1024);

/** The job as a whole: the operator's commands, and the public facts that watchers read. */
export const jobMessages = defineMessages({
  "job.stop": {
    direction: "report",
    from: ["operator"],
    says: "An operator ends the job after the running step: last checkpoint, then everybody leaves.",
    body: z.strictObject({ reason: textSchema, ...commandFields }),
  },
  "job.started": {
    direction: "event",
    from: ["controller"],
    says: "A controller acts for the job in a new term.",
    body: z.strictObject({ term: countSchema, steps: countSchema, seed: countSchema }),
  },
  "job.ended": {
    direction: "event",
    from: ["controller"],
    says: "The job is over, with its ledger and the digests of its last weights.",
    body: z.strictObject({
      outcome: z.enum(["done", "stopped", "failed"]),
      reason: textSchema,
      step: countSchema,
      ...versionFields,
      sections: z.array(sectionSchema).max(4),
      ledger: ledgerSchema,
      /** The different engines that its samplers had; absent where none said. */
      samplers: z.array(engineSaidSchema).max(engineKindsMax).optional(),
    }),
  },
  "member.joined": {
    direction: "event",
    from: ["controller"],
    says: "A replica was admitted.",
    body: z.strictObject(memberFields),
  },
  "member.left": {
    direction: "event",
    from: ["controller"],
    says: "A replica left by its own will or was released.",
    body: z.strictObject({ ...memberFields, reason: textSchema }),
  },
  "member.suspected": {
    direction: "event",
    from: ["controller"],
    says: "A replica gets no new work until it is heard again.",
    body: z.strictObject({ ...memberFields, ...evidenceFields }),
  },
  "member.recovered": {
    direction: "event",
    from: ["controller"],
    says: "A suspected or hung replica is well again, or a new controller begins to watch it anew.",
    body: z.strictObject({ ...memberFields, ...evidenceFields, evidence: textSchema.optional() }),
  },
  "member.died": {
    direction: "event",
    from: ["controller"],
    says: "A replica is out for good; only a new incarnation may come back.",
    body: z.strictObject({ ...memberFields, ...evidenceFields }),
  },
  "mesh.changed": {
    direction: "event",
    from: ["controller"],
    says: "The policy mesh has a new epoch that all members joined.",
    body: z.strictObject({
      epoch: countSchema,
      members: z.array(idSchema).max(1024),
      /** What they compute with; absent for engines that do not say. */
      engines: engineKindsSchema.optional(),
    }),
  },
  "step.committed": {
    direction: "event",
    from: ["controller"],
    says: "A step is committed: its mean reward, groups, tokens and the new version.",
    body: z.strictObject({
      step: countSchema,
      attempt: countSchema,
      epoch: countSchema,
      ...versionFields,
      sections: z.array(sectionSchema).max(4),
      /** Absent where nobody judges: of supervised fine-tuning. */
      reward: z.number().optional(),
      tokens: countSchema,
      staleness: countSchema,
      /** Ids of the groups it trained, so that a watcher can count what was trained twice. */
      groups: z.array(z.string().max(64)).max(65_536),
      ledger: ledgerSchema,
      members: countSchema,
      stepMs: z.number().nonnegative(),
      computeMs: z.number().nonnegative(),
      reduceMs: z.number().nonnegative(),
      gradNorm: z.number(),
      clipFraction: z.number(),
      entropy: z.number(),
      /** Objective of the algorithm, negated, and KL(sampled ‖ trained), each per response token; the second is absent where nothing is sampled. */
      loss: z.number(),
      approxKl: z.number().optional(),
      ...moreFigures,
      /** Where groups of it that may be shown lie in the groups stream, by index. */
      places: z
        .array(z.strictObject({ index: countSchema, streamSeq: countSchema }))
        .max(samplesMax.groups)
        .optional(),
      /** The share of its groups that it trained, where some were given up; absent: all. */
      coverage: z.number().min(0).max(1).optional(),
    }),
  },
  "step.skipped": {
    direction: "event",
    from: ["controller"],
    says: "A step left the weights unchanged, and why.",
    body: z.strictObject({ step: countSchema, version: countSchema, reason: textSchema }),
  },
  "step.retried": {
    direction: "event",
    from: ["controller"],
    says: "A step starts again with the same batch, and why.",
    body: z.strictObject({ step: countSchema, attempt: countSchema, reason: textSchema }),
  },
  "groups.released": {
    direction: "event",
    from: ["controller"],
    says: "Leased groups went back to the queue, and why.",
    body: z.strictObject({
      holder: idSchema,
      count: countSchema,
      reason: textSchema,
      items: workIdsSchema,
      /** Response tokens that were drawn and are lost; of a holder that is gone, about as many as its groups usually have. */
      tokensWasted: countSchema.optional(),
    }),
  },
  "groups.quarantined": {
    direction: "event",
    from: ["controller"],
    says: "A group is given up: its holders failed over it too often.",
    body: z.strictObject({
      item: z.string().max(64),
      attempts: countSchema,
      /** Who failed last. */
      holder: idSchema,
      failure: z.enum(failureKinds),
      reason: textSchema,
    }),
  },
  "groups.resumed": {
    direction: "event",
    from: ["controller"],
    says: "Groups that had gone back to the queue are leased again, to whom, and how many tokens of them were saved.",
    body: z.strictObject({ holder: idSchema, items: workIdsSchema, tokens: countSchema }),
  },
  "groups.aborted": {
    direction: "event",
    from: ["controller"],
    says: "Trajectories were aborted one by one; their siblings went on.",
    body: causeCountSchema.extend({ holder: idSchema }),
  },
  "eval.finished": {
    direction: "event",
    from: ["controller"],
    says: "The held-out prompts were evaluated at one version.",
    body: z.strictObject({ version: countSchema, prompts: countSchema, correct: countSchema }),
  },
  "checkpoint.kept": {
    direction: "event",
    from: ["controller"],
    says: "A checkpoint is durable.",
    body: z.strictObject({
      step: countSchema,
      ...versionFields,
      path: z.string().max(4096),
      manifestDigest: z.string().max(128),
    }),
  },
  "alarm.raised": {
    direction: "event",
    from: ["controller"],
    says: "Something needs an operator's eye; the job goes on as far as it can.",
    body: z.strictObject({ alarm: z.string().max(64), detail: textSchema }),
  },
});
