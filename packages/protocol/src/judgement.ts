/** What a reward says of a trajectory besides its number: what it is made of, and what is to be kept with it. Bounded, so that a group stays small. */
import { componentName, judgementLimits, rewardMax } from "@muster/base";
import { z } from "zod";

const nameSchema = z.string().max(judgementLimits.nameChars).regex(componentName);
const valueSchema = z.number().min(-rewardMax).max(rewardMax);

const componentSchema = z.strictObject({ name: nameSchema, value: valueSchema });

/** One part of a reward. */
export type RewardComponent = z.infer<typeof componentSchema>;

/** Schema of the parts of one reward. */
export const componentsSchema = z.array(componentSchema).min(1).max(judgementLimits.components);

/** Schema of metadata: an object as JSON. */
export const metadataSchema = z.string().min(2).max(judgementLimits.metadataBytes);

/** Names of components that a step tells of; of more, the first by name. */
export const stepComponentsMax = 32;

/** Schema of what a component was in a batch. */
export const componentFiguresSchema = z.strictObject({
  name: nameSchema,
  /** Trajectories that have it. */
  count: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  mean: valueSchema,
  /** Sum of (value − mean)². */
  squares: z.number().nonnegative().max(1e30),
  least: valueSchema,
  most: valueSchema,
});

/** As {@link componentFiguresSchema}. */
export type ComponentFigures = z.infer<typeof componentFiguresSchema>;

/** Schema of what a step says of a component. */
export const stepComponentSchema = componentFiguresSchema.omit({ squares: true }).extend({
  /** Standard deviation. */
  spread: z.number().nonnegative(),
});

/** As {@link stepComponentSchema}. */
export type StepComponent = z.infer<typeof stepComponentSchema>;

/** Bytes that a judgement takes on the wire, at most: each component with its name, number and the names of its fields. */
export const judgementBytesMax =
  judgementLimits.components * (judgementLimits.nameChars + 32) + judgementLimits.metadataBytes + 64;
