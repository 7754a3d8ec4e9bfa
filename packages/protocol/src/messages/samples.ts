import { rewardMax } from "@muster/base";
import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { samplesMax } from "../job-config.ts";
import { componentsSchema, metadataSchema } from "../judgement.ts";
import { clippedText } from "../texts.ts";
import { trajectoryStatuses } from "../trajectory.ts";
import { defineMessages } from "./define.ts";
import { versionFields } from "./parts.ts";

const shownText = clippedText(samplesMax.textChars);

const responseSchema = z.strictObject({
  /** Its place in the group. */
  sample: countSchema,
  status: z.enum(trajectoryStatuses),
  /** Response tokens. */
  tokens: countSchema,
  /** `null` of an aborted one. */
  reward: z.number().min(-rewardMax).max(rewardMax).nullable(),
  /** What its reward is made of, and what the reward says besides, an object as JSON. */
  components: componentsSchema.optional(),
  metadata: metadataSchema.optional(),
  text: shownText,
  /** Why it was aborted. */
  error: clippedText(500).optional(),
});

const groupFields = {
  step: countSchema,
  index: countSchema,
  attempt: countSchema,
  /** Where the group lies in the groups stream: the commit says which one was trained. */
  streamSeq: countSchema,
  ...versionFields,
  prompt: shownText,
  /** The right answer, where the task says one. */
  answer: clippedText(500).optional(),
  responses: z.array(responseSchema).min(1).max(samplesMax.responses),
};

/** Responses for people to read: a bounded few of each step, as texts. Nothing is decided by them, and the journal has none. */
export const sampleMessages = defineMessages({
  "samples.drawn": {
    direction: "report",
    from: ["rollout"],
    isLarge: true,
    says: "A rollout replica shows what it drew for a group that it has stored: prompt, responses and rewards as texts.",
    body: z.strictObject(groupFields),
  },
  "samples.shown": {
    direction: "event",
    from: ["controller"],
    says: "The controller passes on what a rollout replica showed of a group.",
    body: z.strictObject({ ...groupFields, replica: z.string().max(48) }),
  },
});
