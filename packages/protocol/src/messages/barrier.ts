import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { defineMessages } from "./define.ts";
import { textSchema } from "./parts.ts";

/** Most ranks of a barrier. */
export const barrierRanksMax = 256;
/** Most ranges of finished items that one arrival names. */
export const barrierRangesMax = 16;

/** What happens to a barrier at its deadline: it waits on and says for whom, goes on without them, or is given up. */
export const barrierPolicies = ["wait", "eject", "abort"] as const;

const rankSchema = countSchema.max(barrierRanksMax - 1);
const ranksSchema = z.array(rankSchema).max(barrierRanksMax);
/** A barrier of a job by its key: no two of them are the same. */
const keyFields = {
  /** Attempt at the phases: a script that begins an iteration again counts it up. What comes from a lower one is refused. */
  epoch: countSchema,
  iteration: countSchema,
  phase: countSchema.max(13),
};
/** Items from a first one to the one before `to`. */
const rangeFields = { from: countSchema, to: countSchema };
/** Longest decision of rank 0, in characters. */
export const barrierDecisionMax = 2_000;

const decisionSchema = z.string().max(barrierDecisionMax);

/** Barriers between the phases of scripts that run on several hosts. */
export const barrierMessages = defineMessages({
  "barrier.arrived": {
    direction: "report",
    from: ["operator"],
    says: "A rank of a script on several hosts has finished a phase and waits for the others. Said again it changes nothing.",
    body: z.strictObject({
      ...keyFields,
      rank: rankSchema,
      ranks: countSchema.min(1).max(barrierRanksMax),
      /** Load of each rank; absent: all alike. All ranks say the same. */
      weights: z.array(countSchema.min(1).max(1_000_000)).max(barrierRanksMax).optional(),
      /** Fewest ranks that go on without the others; absent: all. */
      quorum: countSchema.min(1).max(barrierRanksMax).optional(),
      /** Time from the first arrival to the deadline; absent: ten minutes. */
      timeoutMs: countSchema.min(1).max(86_400_000).optional(),
      onMissing: z.enum(barrierPolicies).optional(),
      /** Items of work to be shared out; absent: none. */
      items: countSchema.max(1_000_000_000).optional(),
      /** The items that this rank has finished. */
      done: z.array(z.strictObject(rangeFields)).max(barrierRangesMax).optional(),
      /** What rank 0 decided for all, e.g. whether this iteration evaluates. */
      decision: decisionSchema.optional(),
    }),
  },
  "barrier.ended": {
    direction: "event",
    from: ["controller"],
    says: "A barrier was passed by all of its ranks or by a quorum, or it was given up; with who is missing, and the work that is left.",
    body: z.strictObject({
      ...keyFields,
      outcome: z.enum(["whole", "partial", "aborted"]),
      arrived: ranksSchema,
      missing: ranksSchema,
      reason: textSchema,
      waitedMs: countSchema,
      /** The share of the items that are finished; 1 where there are none. */
      coverage: z.number().min(0).max(1),
      /** What is left, shared out to the ranks that arrived. */
      shares: z
        .array(z.strictObject({ rank: rankSchema, ...rangeFields }))
        .max(barrierRanksMax * (barrierRangesMax + 1)),
      decision: decisionSchema.optional(),
    }),
  },
  "barrier.refused": {
    direction: "event",
    from: ["controller"],
    says: "An arrival at a barrier was not taken, and why.",
    body: z.strictObject({ ...keyFields, rank: rankSchema, by: z.string().max(128), reason: textSchema }),
  },
});
