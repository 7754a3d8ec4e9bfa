/**
 * A file of trajectories: finished groups of one step and the weights that sampled them, for another run to train. A line of JSON says what is in it, and
 * the bytes after the line are the body of a `groups.batch` message. `docs/operating/phases.md` describes both.
 */
import { createHash } from "node:crypto";
import { messageOf } from "@muster/base";
import {
  type ChangedSettings,
  fromGroupsBatch,
  groupsAt,
  type JobConfig,
  pack,
  piecedBytesMax,
  positionOf,
  readPiecedBody,
  sectionSchema,
  spansOf,
  stepsAfter,
  type TrajectoryGroup,
  toGroupsBatch,
} from "@muster/protocol";
import { z } from "zod";
import { numberFlaw } from "../policy/read-batch.ts";

/** Ending of the files' names. */
export const trajectoryFileEnd = ".trajectories";

/** Longest first line, and most groups of a file. */
export const headBytesMax = 256 * 1024;
const fileGroupsMax = 1_024;

const format = "muster-trajectories";
const formatVersion = 1;
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const text = z.string().max(256);

const headSchema = z.strictObject({
  format: z.literal(format),
  v: z.literal(formatVersion),
  job: text,
  /** What decides which prompt a group has, and what samples of it mean: both runs must have the same. */
  source: z.record(text, z.union([text, z.number()])),
  step: count.min(1),
  /** Newest weights in it: version, and what they are; no sections where that is not known any more. */
  weights: z.strictObject({ version: count, sections: z.array(sectionSchema).max(4) }),
  /** Groups: index in the step, attempt, and the oldest version in it. */
  groups: z
    .array(z.strictObject({ index: count, attempt: count, version: count }))
    .min(1)
    .max(fileGroupsMax),
  /** Of the body. */
  bytes: count.max(piecedBytesMax),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});

/** First line of a file. */
export type TrajectoryHead = z.infer<typeof headSchema>;

/** A job's configuration, with what its operators changed. */
export type ChangedJob = JobConfig & { readonly changes?: readonly ChangedSettings[] | undefined };

/** What both runs must have alike for a step. Pure. */
export function sourceOf(config: ChangedJob, step: number): TrajectoryHead["source"] {
  const { seed, task, taskModule, prompts, batch, rollout, sampling, model, changes } = config;
  const spans = spansOf(batch.groupsPerStep, changes);
  return {
    ...{ "job.seed": seed, "job.task": task.name.split("/").at(-1) ?? task.name },
    ...(taskModule ? { "task module": taskModule.digest } : {}),
    ...(prompts ? { prompts: prompts.digest, tokenizer: prompts.tokenizerDigest } : {}),
    ...{ "batch.groups_per_step": groupsAt(spans, step), "batch.group_size": batch.groupSize },
    ...(spans.length > 1 ? { "first prompt of the step": positionOf(spans, { step, index: 0 }) } : {}),
    ...{ "rollout.fan_out": rollout.fanOut, "sampling.temperature": sampling.temperature },
    ...{ "sampling.max_new_tokens": sampling.maxNewTokens, vocabulary: model.vocab, context: model.maxContext },
  };
}

/** What one file has. */
export interface TrajectoryContent extends Pick<TrajectoryHead, "job" | "source" | "step" | "weights"> {
  readonly groups: readonly { readonly group: TrajectoryGroup; readonly version: number }[];
}

/** What a group adds to a file, in bytes, but for its small fields. Pure. */
export function bytesOfGroup({ trajectories }: TrajectoryGroup): number {
  return trajectories.reduce(
    (sum, { tokens, logprobs, lossMask }) => sum + tokens.byteLength + logprobs.byteLength + lossMask.byteLength,
    0,
  );
}

/** Bytes of a file. Pure. */
export function encodeTrajectories({ groups, ...head }: TrajectoryContent): Uint8Array {
  const body = pack(toGroupsBatch(groups.map(({ group }) => group)));
  const first: TrajectoryHead = {
    ...{ format, v: formatVersion, ...head },
    groups: groups.map(({ group: { index, attempt }, version }) => ({ index, attempt, version })),
    bytes: body.length,
    sha256: createHash("sha256").update(body).digest("hex"),
  };
  return Buffer.concat([Buffer.from(`${JSON.stringify(first)}\n`), body]);
}

/** The first line, or a sentence that says what is wrong with it. Pure. */
export function readHead(start: Uint8Array): { readonly head: TrajectoryHead; readonly bodyAt: number } | string {
  const end = start.indexOf(10);
  if (end < 0) return `it has no first line of at most ${headBytesMax} bytes`;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(start.subarray(0, end)).toString("utf8"));
  } catch (error) {
    return `its first line is no JSON: ${messageOf(error)}`;
  }
  const named = z.object({ format: z.literal(format), v: z.number() }).safeParse(value).data;
  if (!named) return `its first line does not say format = "${format}"`;
  if (named.v !== formatVersion)
    return `it has version ${named.v} of the format, and this program reads ${formatVersion}`;
  const parsed = headSchema.safeParse(value);
  if (parsed.success) return { head: parsed.data, bodyAt: end + 1 };
  const [issue] = parsed.error.issues;
  return `its first line is wrong at ${issue?.path.join(".") || "its top"}: ${issue?.message}`;
}

/** What the job that reads a file has otherwise than the one that wrote it; `null` when they fit. Pure. */
export function differenceOfSource(head: TrajectoryHead, config: ChangedJob): string | null {
  const own = sourceOf(config, head.step);
  for (const key of new Set([...Object.keys(own), ...Object.keys(head.source)]))
    if (own[key] !== head.source[key])
      return `it is of a run with ${key} = ${head.source[key] ?? "nothing"}, and here it is ${own[key] ?? "nothing"}`;
  const groupsPerStep = groupsAt(spansOf(config.batch.groupsPerStep, config.changes), head.step);
  const steps = stepsAfter(config.steps, config.changes);
  if (head.step > steps) return `it is of step ${head.step}, and the job has ${steps}`;
  const out = head.groups.find(({ index }) => index >= groupsPerStep);
  return out ? `it has group ${head.step}.${out.index}, and a step has ${groupsPerStep}` : null;
}

/** The groups in the body of a file, or a sentence that says why there are none. Pure. */
export function readBody(
  head: TrajectoryHead,
  body: Uint8Array,
  config: JobConfig,
): readonly TrajectoryGroup[] | string {
  if (body.length !== head.bytes)
    return `it has ${body.length} bytes after its first line, which says ${head.bytes}: it is torn`;
  const digest = createHash("sha256").update(body).digest("hex");
  if (digest !== head.sha256) return `its digest is ${digest}, and its first line says ${head.sha256}: it is damaged`;
  let groups: readonly TrajectoryGroup[] | string;
  try {
    const read = readPiecedBody("groups.batch", body, 0);
    groups = read.kind === "groups.batch" ? fromGroupsBatch(read.body) : "it has other things than finished groups";
  } catch (error) {
    return `its groups can not be read: ${messageOf(error)}`;
  }
  if (typeof groups === "string") return groups;
  if (groups.length !== head.groups.length)
    return `it has ${groups.length} groups, and its first line names ${head.groups.length}`;
  const seen = new Set<number>();
  for (const [at, group] of groups.entries()) {
    const { groupId, step, index, attempt } = group;
    const said = head.groups[at];
    if (step !== head.step || index !== said?.index || attempt !== said.attempt || groupId !== `${step}.${index}`)
      return `group ${groupId} is not what its first line says, ${head.step}.${said?.index}`;
    if (seen.has(index)) return `it has group ${groupId} twice`;
    seen.add(index);
    const flaw = flawOfGroup(group, said.version, head.weights.version, config);
    if (flaw !== null) return `group ${groupId}: ${flaw}`;
  }
  return groups;
}

function flawOfGroup(
  { trajectories }: TrajectoryGroup,
  oldest: number,
  newest: number,
  config: JobConfig,
): string | null {
  const size = config.batch.groupSize * config.rollout.fanOut;
  if (trajectories.length !== size) return `${trajectories.length} trajectories, and a group has ${size}`;
  for (const trajectory of trajectories) {
    const flaw = numberFlaw(trajectory, config.model);
    if (flaw !== null) return flaw;
    const odd = trajectory.segments.find(({ version }) => version < oldest || version > newest);
    if (odd) return `tokens of version ${odd.version}, and its first line says ${oldest} to ${newest}`;
  }
  return null;
}
