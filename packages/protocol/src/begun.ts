/** Groups that were begun and are not finished: what is drawn of them, whole or what came since the last time, and how that travels. */
import { z } from "zod";
import { countSchema } from "./envelope.ts";
import { segmentsMax } from "./group-size.ts";
import { bytesOf, ownBuffer, type Segment, segmentSchema, tiledBy } from "./trajectory.ts";

/** Which call of the engine a response answers, where a module generates: its samples have turns. */
export interface BegunTurn {
  /** Place in the group, from 0. */
  readonly sample: number;
  /** Calls of the same sample before it. */
  readonly at: number;
  /** Digest of what was asked. */
  readonly request: string;
}

/** One response of a group that was begun and interrupted, or one turn of it. */
export interface BegunTrajectory {
  /** Absent: a response that the engine draws by itself. */
  readonly turn?: BegunTurn | undefined;
  readonly responseIds: Int32Array;
  /** Of each response token; response length. */
  readonly logprobs: Float32Array;
  /** How it ended, if it did; `null` when it was interrupted. */
  readonly finish: "stop" | "length" | null;
  /** Tile the response; versions never decrease. */
  readonly segments: readonly Segment[];
}

/** Most responses or turns of one begun group. */
export const begunMax = 4096;

/** A group that was begun and interrupted: whoever holds it next goes on with it. Its turns, if it has such, are in the order in which they were begun. */
export interface BegunGroup {
  readonly step: number;
  readonly index: number;
  readonly responses: readonly BegunTrajectory[];
}

/** A begun group as it is stored: all of it, or what was drawn since it was stored before. */
export interface BegunPart extends BegunGroup {
  /** Message of the groups stream that has what comes before; `null` when this is all. */
  readonly before: number | null;
  /** Tokens of each response that are in earlier parts; responses and log-probabilities begin there, segments tile the whole. */
  readonly skipped: readonly number[];
}

const bytes = z.instanceof(Uint8Array);

const begunWire = z.strictObject({
  /** Tokens of the response that are stored before; absent: 0. */
  from: countSchema.optional(),
  responseIds: bytes,
  logprobs: bytes,
  finish: z.enum(["stop", "length"]).nullable(),
  segments: z.array(segmentSchema).max(segmentsMax),
  /** Which call of a module it answers; absent: it is a response of the engine itself. */
  turn: z.strictObject({ sample: countSchema, at: countSchema, request: z.string().max(64) }).optional(),
});

/** Body of one message in the groups stream: what a replica drew of groups that are not finished. */
export const groupsBegunBody = z.strictObject({
  /** Of the versions in it: those of another lineage are other weights. */
  lineage: countSchema,
  groups: z
    .array(
      z.strictObject({
        step: countSchema,
        index: countSchema,
        /** Message with what was drawn before; absent: this is all. */
        before: countSchema.optional(),
        responses: z.array(begunWire).min(1).max(begunMax),
      }),
    )
    .min(1)
    .max(4096),
});

/** All of a begun group as one part. Pure. */
export function wholePart(group: BegunGroup): BegunPart {
  return { ...group, before: null, skipped: group.responses.map(() => 0) };
}

/** What of a begun group was drawn since it was stored as message `before`, with so many tokens of each response. Pure. */
export function partSince(group: BegunGroup, { before, skipped }: Pick<BegunPart, "before" | "skipped">): BegunPart {
  const responses = group.responses.map((response, at) => ({
    ...response,
    responseIds: response.responseIds.subarray(skipped[at]),
    logprobs: response.logprobs.subarray(skipped[at]),
  }));
  return { ...group, responses, before, skipped };
}

/** The group that a part makes with what was stored before it; `null` when they do not fit together. Pure. */
export function joinBegun(earlier: BegunGroup, part: BegunPart): BegunGroup | null {
  const { step, index } = part;
  const isSame = earlier.step === step && earlier.index === index;
  // Turns are added behind those that there were.
  if (!isSame || earlier.responses.length > part.responses.length) return null;
  const responses: BegunTrajectory[] = [];
  for (const [at, late] of part.responses.entries()) {
    const skipped = part.skipped[at] ?? 0;
    const early = earlier.responses[at];
    if ((early?.responseIds.length ?? 0) < skipped) return null;
    const responseIds = new Int32Array(skipped + late.responseIds.length);
    const logprobs = new Float32Array(responseIds.length);
    if (early) responseIds.set(early.responseIds.subarray(0, skipped));
    responseIds.set(late.responseIds, skipped);
    if (early) logprobs.set(early.logprobs.subarray(0, skipped));
    logprobs.set(late.logprobs, skipped);
    responses.push({ ...late, responseIds, logprobs });
  }
  return { step, index, responses };
}

/** The body that carries parts of begun groups. Pure. */
export function toGroupsBegun(lineage: number, parts: readonly BegunPart[]): z.infer<typeof groupsBegunBody> {
  return {
    lineage,
    groups: parts.map(({ step, index, before, skipped, responses }) => ({
      step,
      index,
      ...(before === null ? {} : { before }),
      responses: responses.map(({ responseIds, logprobs, finish, segments, turn }, at) => ({
        ...(skipped[at] ? { from: skipped[at] } : {}),
        responseIds: bytesOf(responseIds),
        logprobs: bytesOf(logprobs),
        finish,
        segments: [...segments],
        ...(turn ? { turn } : {}),
      })),
    })),
  };
}

/** The parts of begun groups that a body carries; those whose lengths or segments do not agree are left out. Pure. */
export function fromGroupsBegun(body: z.infer<typeof groupsBegunBody>): readonly BegunPart[] {
  return body.groups.flatMap(({ step, index, before = null, responses }) => {
    const isSound = responses.every(
      ({ from = 0, responseIds, logprobs, segments }) =>
        responseIds.length % 4 === 0 &&
        logprobs.length === responseIds.length &&
        (from === 0 || before !== null) &&
        tiledBy(segments) === from + responseIds.length / 4,
    );
    if (!isSound) return [];
    const read = responses.map(({ from: _, ...wire }) => ({
      ...wire,
      responseIds: new Int32Array(ownBuffer(wire.responseIds)),
      logprobs: new Float32Array(ownBuffer(wire.logprobs)),
    }));
    return [{ step, index, before, skipped: responses.map(({ from = 0 }) => from), responses: read }];
  });
}
