/** A trajectory and the group of trajectories of one prompt, and how they travel in the groups stream. */
import { rewardMax } from "@muster/base";
import { z } from "zod";
import { countSchema } from "./envelope.ts";
import { failureKinds } from "./failure.ts";
import { errorWithin, segmentsMax } from "./group-size.ts";
import { componentsSchema, metadataSchema, type RewardComponent } from "./judgement.ts";
import { clippedText } from "./texts.ts";

/** How a trajectory ended. `aborted` ones are placeholders: they never reach the loss and carry no reward. */
export const trajectoryStatuses = ["completed", "truncated", "aborted"] as const;

/** A run of response tokens that one weight version produced: `[from, to)` in response positions. */
export interface Segment {
  readonly version: number;
  readonly from: number;
  readonly to: number;
}

const errorSchema = z.strictObject({
  name: clippedText(200),
  message: clippedText(2000),
  kind: z.enum(failureKinds).optional(),
  stack: clippedText(4000).optional(),
});

/** The original error of an aborted trajectory: its class, message and stack, and which rule it falls under. */
export type TrajectoryError = z.infer<typeof errorSchema>;

/** Result of one rollout (semantics 3). */
export interface Trajectory {
  /** Prompt and response token ids. */
  readonly tokens: Int32Array;
  /** Number of leading prompt tokens. */
  readonly promptLength: number;
  /** Log-probability of each response token under the distribution it was drawn from; response length. */
  readonly logprobs: Float32Array;
  /** 1 where a response token takes part in the loss; response length. */
  readonly lossMask: Uint8Array;
  readonly reward: number;
  /** What the reward is made of, by name in order; for people. */
  readonly components?: readonly RewardComponent[];
  /** What the reward says of it besides: an object as JSON. */
  readonly metadata?: string;
  readonly status: (typeof trajectoryStatuses)[number];
  /** Tile the response without gap or overlap; versions never decrease. */
  readonly segments: readonly Segment[];
  /** The original error of an aborted trajectory. */
  readonly error?: TrajectoryError;
}

/** The trajectories of one prompt: the unit that is leased, settled and trained. */
export interface TrajectoryGroup {
  /** `<step>.<index>`. */
  readonly groupId: string;
  readonly step: number;
  readonly index: number;
  readonly attempt: number;
  readonly trajectories: readonly Trajectory[];
}

const bytes = z.instanceof(Uint8Array);

/** Schema of a {@link Segment}. */
export const segmentSchema = z.strictObject({ version: countSchema, from: countSchema, to: countSchema });

const trajectoryWire = z.strictObject({
  tokens: bytes,
  promptLength: countSchema,
  logprobs: bytes,
  lossMask: bytes,
  reward: z.number(),
  status: z.enum(trajectoryStatuses),
  segments: z.array(segmentSchema).max(segmentsMax),
  error: errorSchema.optional(),
  components: componentsSchema.optional(),
  metadata: metadataSchema.optional(),
});

const groupWire = z.strictObject({
  groupId: z.string().max(64),
  step: countSchema,
  index: countSchema,
  attempt: countSchema,
  trajectories: z.array(trajectoryWire).min(1).max(4096),
});

/** Body of one message in the groups stream: finished groups of one replica. */
export const groupsBatchBody = z.strictObject({ groups: z.array(groupWire).min(1).max(4096) });

type GroupWire = z.infer<typeof groupWire>;

/** The bytes of a typed array, not copied: whoever packs them does. */
export const bytesOf = (view: ArrayBufferView): Uint8Array<ArrayBuffer> =>
  new Uint8Array(view.buffer as ArrayBuffer, view.byteOffset, view.byteLength);

/** Bytes in a buffer of their own, so that numbers can be read where they lie: the given one, unless it holds more than them. */
export function ownBuffer({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): ArrayBuffer {
  return byteLength === buffer.byteLength ? buffer : buffer.slice(byteOffset, byteOffset + byteLength);
}

/** The body that carries these groups, for packing; arrays become little-endian bytes where they lie, and errors keep what their group has room for. */
export function toGroupsBatch(groups: readonly TrajectoryGroup[]): z.infer<typeof groupsBatchBody> {
  return {
    groups: groups.map((group) => ({
      ...group,
      trajectories: group.trajectories.map(({ components, metadata, ...trajectory }) => ({
        ...trajectory,
        tokens: bytesOf(trajectory.tokens),
        logprobs: bytesOf(trajectory.logprobs),
        lossMask: bytesOf(trajectory.lossMask),
        ...(components ? { components: [...components] } : {}),
        ...(metadata === undefined ? {} : { metadata }),
        segments: [...trajectory.segments],
        ...(trajectory.error ? { error: errorWithin(trajectory.error, group.trajectories.length) } : {}),
      })),
    })),
  };
}

/**
 * The groups that a body carries, on its bytes where each array has a buffer of its own, as unpacked ones do. @returns Groups, or a sentence saying which trajectory is inconsistent.
 * Every length is checked: response = tokens − prompt = log-probs = mask, and the segments tile it.
 */
export function fromGroupsBatch(body: z.infer<typeof groupsBatchBody>): readonly TrajectoryGroup[] | string {
  const groups: TrajectoryGroup[] = [];
  for (const wire of body.groups) {
    const flaw = wire.trajectories.map(flawOf).find((text) => text !== null);
    if (flaw) return `group ${wire.groupId}: ${flaw}`;
    groups.push({ ...wire, trajectories: wire.trajectories.map(trajectoryOf) });
  }
  return groups;
}

/** How many tokens segments tile from 0 on; -1 when they leave a gap, overlap, or their versions decrease. */
export function tiledBy(segments: readonly Segment[]): number {
  let at = 0;
  let version = 0;
  for (const segment of segments) {
    if (segment.from !== at || segment.to < at || segment.version < version) return -1;
    at = segment.to;
    version = segment.version;
  }
  return at;
}

function trajectoryOf(wire: GroupWire["trajectories"][number]): Trajectory {
  const { error, components, metadata, ...rest } = wire;
  return {
    ...rest,
    ...(components ? { components } : {}),
    ...(metadata === undefined ? {} : { metadata }),
    tokens: new Int32Array(ownBuffer(wire.tokens)),
    logprobs: new Float32Array(ownBuffer(wire.logprobs)),
    lossMask: new Uint8Array(ownBuffer(wire.lossMask)),
    ...(error ? { error } : {}),
  };
}

function flawOf(wire: GroupWire["trajectories"][number]): string | null {
  if (wire.tokens.length % 4 !== 0 || wire.logprobs.length % 4 !== 0) return "array bytes are not a multiple of 4";
  const response = wire.tokens.length / 4 - wire.promptLength;
  if (response < 0) return "prompt is longer than the tokens";
  if (wire.logprobs.length / 4 !== response)
    return `${wire.logprobs.length / 4} log-probs for ${response} response tokens`;
  if (wire.lossMask.length !== response) return `loss mask of ${wire.lossMask.length} for ${response} response tokens`;
  const at = tiledBy(wire.segments);
  if (at < 0 || (wire.status !== "aborted" && at !== response)) return "segments do not tile the response";
  if (!(Math.abs(wire.reward) <= rewardMax))
    return `reward ${wire.reward} is not between -${rewardMax} and ${rewardMax}`;
  return null;
}
