/** Parts that several messages share. */
import { z } from "zod";
import { countSchema } from "../envelope.ts";
import { failureKinds } from "../failure.ts";
import { idSchema } from "../ids.ts";
import { ranksMax } from "../ranks.ts";
import { clippedText } from "../texts.ts";

/** Text for people: a reason, a cause. */
export const textSchema = clippedText(2000);

/** What a process said last. */
export const lastWordsSchema = clippedText(1000);

/** What every command of an operator may carry: its id. The same id twice is one command; without one the controller draws it. */
export const commandFields = { commandId: idSchema.optional() };

/** By what a replica was found ill: what the watchers of a job count and time. */
export const evidenceKinds = [
  "exit",
  "disconnect",
  "silence",
  "peers",
  "hang",
  "engine",
  "deadline",
  "replaced",
] as const;

/** Schema of one of the {@link evidenceKinds}. */
export const evidenceKindSchema = z.enum(evidenceKinds);

/** One of the {@link evidenceKinds}. */
export type EvidenceKind = (typeof evidenceKinds)[number];

/** Addresses of a data-plane holder, in its order of preference. */
export const addressesSchema = z.array(z.string().min(1).max(256)).max(8);

/** Parts of a weight version: `serving` is what samplers need, `training` what only a trainer that joins and a checkpoint need besides. */
export const versionParts = ["serving", "training"] as const;

/** One of the {@link versionParts}. */
export type VersionPart = (typeof versionParts)[number];

const digestSchema = z.string().min(1).max(128);

/** Most rows of a tensor table. */
const tableRowsMax = 200_000;

/** Longest text of a tensor table in bytes: memory is taken for what a message says. */
const tableTextMax = 2 ** 28;

/** The table of the tensors in a section. Its text lies beside the section on the data plane, in the same version, as the section `table`. */
export const tensorTableSchema = z.strictObject({
  rows: countSchema.max(tableRowsMax),
  /** Of its text, by which tables are told apart: as `weights.meta` names it. */
  digest: digestSchema,
  /** The text as a section of the data plane: its size in bytes and its digest there. */
  text: z.strictObject({ bytes: countSchema.max(tableTextMax), digest: digestSchema }),
});

/** Longest text in bytes that says something of each process of a trainer. */
const rankTextMax = 2 ** 22;

/** A text that says something of each process of a trainer lies on the data plane, so that no message grows with their number. */
const rankTextFields = { of: countSchema.min(2).max(ranksMax), bytes: countSchema.max(rankTextMax) };

/**
 * Where what rank r of a trainer of several processes has of a section is its shard r: the text lists sizes and digests, and lies where the replica serves
 * the section. Its digest is that of the section, which begins with `shards:`.
 */
const sectionShardsSchema = z.strictObject(rankTextFields);

/** One contiguous piece of a part of a weight version: its name, size and digest. */
export const sectionSchema = z.strictObject({
  name: z.enum(["weights", "optimizer"]),
  bytes: countSchema,
  /** Of its bytes; of a section in shards, `shards:` and that of the list of its shards. */
  digest: digestSchema,
  /** Where no process has all of it. */
  shards: sectionShardsSchema.optional(),
  /** Of the weights. Absent from programs that published no table. */
  table: tensorTableSchema.optional(),
});

/** Name of a weight version: lineage, version. A version is told apart from bytes by its sections' digests. */
export const versionFields = { lineage: countSchema, version: countSchema };

/**
 * Where the `training` part of a version can be pulled: empty when it is not published; absent when it is where the rest is, as it was with
 * programs that published all of a version together.
 */
export const trainingAddressesSchema = addressesSchema.optional();

/**
 * Where the ranks of a trainer of several processes serve their shards: the text has the addresses of each, and is the section `ranks` beside `serving`, where
 * the replica serves.
 */
export const ranksServingSchema = z.strictObject({ ...rankTextFields, digest: digestSchema });

/** A replica that holds a version, and where to pull it. */
export const holderSchema = z.strictObject({
  id: idSchema,
  addresses: addressesSchema,
  training: trainingAddressesSchema,
  /** Absent where one process serves all. */
  ranks: ranksServingSchema.optional(),
});

/**
 * What is published of a version besides `serving`. Absent in orders of programs that published all of a version together, and then means that.
 */
export const keepSchema = z.array(z.literal("training")).max(1).optional();

/** A root cause of aborted trajectories and how often it came: equal are those of one class and top frame of the stack. */
export const causeCountSchema = z.strictObject({
  name: clippedText(200),
  /** Of the first one. */
  message: textSchema,
  count: countSchema,
  /** Which kind of failure it is: the name `kind` is taken where events are written as lines. */
  failure: z.enum(failureKinds).optional(),
  /** Where it was thrown. */
  frame: clippedText(300).optional(),
  /** Of the first one. */
  stack: clippedText(4000).optional(),
  /** `<step>.<index>/<sample>` of the first one. */
  sample: z.string().max(64).optional(),
});

/** A root cause of aborted trajectories. */
export type CauseCount = z.infer<typeof causeCountSchema>;

/** Size and digests of a tensor table. */
export type TensorTable = z.infer<typeof tensorTableSchema>;

/** Size and digest of one section. */
export type Section = z.infer<typeof sectionSchema>;

/** The part of a version that a section belongs to. Pure. */
export function partOf({ name }: Pick<Section, "name">): VersionPart {
  return name === "weights" ? "serving" : "training";
}

/** The sections of one part of a version. Pure. */
export function sectionsOfPart<S extends Pick<Section, "name">>(sections: readonly S[], part: VersionPart): S[] {
  return sections.filter((section) => partOf(section) === part);
}

/** What the bytes of sections are, whatever is said of them besides: equal texts for equal bytes. Pure. */
export function digestsOf(sections: readonly Pick<Section, "name" | "digest">[]): string {
  return sections.map(({ name, digest }) => `${name}=${digest}`).join(" ");
}

/** A replica that holds a version. */
export type Holder = z.infer<typeof holderSchema>;

/** Most shards of one checkpoint. */
export const shardsMax = 1_024;

/** Which shards of a checkpoint one actor has to do with, counted from 1, and how many there are. */
export const shardsSchema = z.strictObject({
  of: countSchema.min(2).max(shardsMax),
  /** None: all are durable, and the actor is to seal the checkpoint. */
  write: z.array(countSchema.min(1).max(shardsMax)).max(shardsMax),
});

/** What an engine says of itself: its build, and what came of a short computation on its machine, which differs where bits do. */
export const engineSaidSchema = z.strictObject({
  build: z.string().min(1).max(128),
  fingerprint: z.string().min(1).max(128),
});

/** What an engine says of itself. */
export type EngineSaid = z.infer<typeof engineSaidSchema>;

/** Most kinds of engines that are told of one mesh. */
export const engineKindsMax = 16;

/** The different engines of a mesh, and how many of its members have each. */
export const engineKindsSchema = z.array(engineSaidSchema.extend({ members: countSchema })).max(engineKindsMax);
