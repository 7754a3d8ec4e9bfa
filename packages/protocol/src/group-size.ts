/** How large groups become in the groups stream: what the errors in one may take, and the most that a group of a job can. */
import { clipText } from "@muster/base";
import type { JobConfig } from "./job-config.ts";
import { judgementBytesMax } from "./judgement.ts";
import { piecedBytesMax } from "./pieces.ts";

/** Bytes that the errors of one group may take together. */
const errorBytesMax = 256 * 1024;

/**
 * What the wire adds to a group, to a trajectory and to a segment, at most: names of fields, counts, lengths.
 */
const groupBytes = 256;
const trajectoryBytes = 256;
const segmentBytes = 40;

/** Segments of a response, at most; what has more is refused by whoever reads it. */
export const segmentsMax = 1_024;

/** What of a group its size depends on, before it is packed or as its body has it. */
interface Sized {
  readonly trajectories: readonly {
    readonly tokens: ArrayBufferView;
    readonly logprobs: ArrayBufferView;
    readonly lossMask: ArrayBufferView;
    readonly segments: readonly unknown[];
    readonly components?: readonly unknown[] | undefined;
    readonly metadata?: string | undefined;
    readonly error?: ErrorTexts | undefined;
  }[];
}

/** UTF-8 of a UTF-16 unit, at most. */
const charBytes = 3;

/** Bytes that groups take as one body, at most; found without packing them. Pure. */
export function packedBytesAtMost(groups: readonly Sized[]): number {
  let bytes = groupBytes;
  for (const { trajectories } of groups) {
    bytes += groupBytes + trajectories.length * trajectoryBytes;
    for (const { tokens, logprobs, lossMask, segments, components, metadata, error } of trajectories) {
      if (components || metadata !== undefined) bytes += judgementBytesMax;
      bytes += tokens.byteLength + logprobs.byteLength + lossMask.byteLength + segments.length * segmentBytes;
      if (error) bytes += charBytes * (error.name.length + error.message.length + (error.stack?.length ?? 0));
    }
  }
  return bytes;
}

/** The values that the size of a group depends on. */
export type GroupShape = Pick<JobConfig, "batch" | "rollout" | "model" | "sampling" | "stalenessMax">;

/** The texts of an error. */
interface ErrorTexts {
  readonly name: string;
  readonly message: string;
  readonly stack?: string | undefined;
}

/** The error of one of so many trajectories: as much of its texts as its share of the group's room takes, in bytes. Pure. */
export function errorWithin<E extends ErrorTexts>(error: E, trajectories: number): E {
  const share = Math.floor(errorBytesMax / trajectories);
  const name = withinBytes(error.name, Math.floor(share / 4));
  const message = withinBytes(error.message, Math.floor(share / 2));
  if (error.stack === undefined) return { ...error, name, message };
  return { ...error, name, message, stack: withinBytes(error.stack, Math.floor(share / 4)) };
}

/** The beginning of a text that takes at most so many bytes as UTF-8. Pure. */
const withinBytes = (text: string, bytesMax: number): string => clipText(text, Math.max(1, text.length), bytesMax);

/**
 * Bytes that a group of a job takes in the groups stream, at most: every response as long as it may be, or every one an error. Only a response
 * that was begun and gone on with under more versions than may be trained on takes more, and one whose reward says more than its number. Pure.
 */
export function groupBytesMax({ batch, rollout, model, sampling, stalenessMax }: GroupShape): number {
  const trajectories = batch.groupSize * rollout.fanOut;
  // A module or an agent may answer with as many tokens as the context has.
  const isOwnWay = rollout.generate === null && !rollout.agent;
  const response = isOwnWay ? Math.min(sampling.maxNewTokens, model.maxContext) : model.maxContext;
  const segments = Math.min(segmentsMax, stalenessMax + 1, response);
  const tokens = 4 * model.maxContext + 5 * response + segments * segmentBytes;
  return groupBytes + trajectories * (trajectoryBytes + Math.max(tokens, Math.floor(errorBytesMax / trajectories)));
}

/**
 * Most bytes of what is stored as one body in a job: a group with as many segments and as long judgements as may be, or a message full of smaller ones.
 * Pure.
 */
export function bodyBytesMax(config: GroupShape & Pick<JobConfig, "limits">): number {
  const { batch, rollout, limits } = config;
  const more = batch.groupSize * rollout.fanOut * (segmentsMax * segmentBytes + judgementBytesMax);
  return Math.min(piecedBytesMax, Math.max(limits.messageBytes, groupBytesMax(config) + more));
}
