/** What rank 0 of a trainer of several processes hands to all ranks, and what each answers: text, because it goes through the engine's own channel. */
import { MusterError, messageOf } from "@muster/base";
import { holderSchema, messageTable, sectionSchema, versionParts, z } from "@muster/protocol";
import { errors } from "../errors.ts";
import { readText, writeText } from "./read-text.ts";

const count = z.number().int().nonnegative();
const addresses = z.array(z.string().min(1).max(128)).max(2);
const version = { lineage: count, version: count };
const { ranks: namedRanks } = messageTable["mesh.build"].body.shape.members.element.shape;

const ticketSchema = z.discriminatedUnion("do", [
  /** Opens the stores, once the engine has said where its shard is. */
  z.strictObject({ do: z.literal("open") }),
  z.strictObject({ do: z.literal("publish"), ...version, parts: z.array(z.enum(versionParts)).min(1) }),
  /** Digests of the candidate. */
  z.strictObject({ do: z.literal("digest") }),
  /** The own shard, from the same rank of other trainers. */
  z.strictObject({
    do: z.literal("pull"),
    order: count,
    ...version,
    sections: z.array(sectionSchema).min(1).max(4),
    holders: z.array(holderSchema).min(1).max(64),
  }),
  /** The own shard of a checkpoint. `optimizer` has the size of each rank's shard. */
  z.strictObject({
    do: z.literal("load"),
    order: count,
    path: z.string().min(1).max(4096),
    manifests: z.array(z.string().max(128)).nullable(),
    optimizer: z.array(count),
  }),
  /** What was pulled or loaded for this order becomes the live state. */
  z.strictObject({ do: z.literal("adopt"), order: count }),
  /** Meets the same rank of the other trainers. */
  z.strictObject({
    do: z.literal("meet"),
    epoch: count,
    place: count,
    members: z.array(z.strictObject({ id: z.string().min(1).max(128), ranks: namedRanks.optional() })).min(1),
  }),
  z.strictObject({ do: z.literal("reduce"), op: count, written: z.array(count) }),
  z.strictObject({ do: z.literal("leave"), epoch: count, reason: z.string().max(2000) }),
]);

/** What a rank is to do. */
export type RankTicket = z.infer<typeof ticketSchema>;

const shardSchema = z.strictObject({
  name: z.enum(["weights", "optimizer"]),
  bytes: count,
  digest: z.string().max(128),
});

const doneSchema = z.strictObject({
  sections: z.array(shardSchema).max(2),
  /** Where it serves what it published. */
  addresses,
  training: addresses,
  /** Of a checkpoint that was loaded: its name, and the digests of its sections. */
  written: z.strictObject({ name: z.string().max(512), sections: z.array(shardSchema).max(2) }).optional(),
});

/** What a rank has: its shards of the sections that it was asked for, and where it serves them. */
export type RankDone = z.infer<typeof doneSchema>;

const failedSchema = z.strictObject({
  code: z.string().max(256),
  message: z.string().max(8_000),
  params: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
});

const orderSchema = z.string().max(64);
const handedSchema = z.strictObject({ order: orderSchema, ticket: ticketSchema });

/** `order` is that of the ticket that is answered; empty where it could not be read. `build` is that of the rank's engine. */
const fromSchema = { order: orderSchema, rank: count, build: z.string().max(128) };
const answerSchema = z.union([
  z.strictObject({ ...fromSchema, done: doneSchema }),
  z.strictObject({ ...fromSchema, failed: failedSchema }),
]);

/** Who answers which ticket. */
type From = Pick<z.infer<typeof answerSchema>, keyof typeof fromSchema>;

/** A ticket, and the order that it is of: an answer to another one, as of a life before, does not count. */
export type Handed = z.infer<typeof handedSchema>;

const invalid = (reason: string): Error => errors.RankTicket({ reason });

/** Writes a ticket. Pure. @throws MUSTER_ERR_RANK_TICKET */
export const writeRankTicket = (handed: Handed): string => writeText(handed, invalid);

/** Reads a ticket. @throws MUSTER_ERR_RANK_TICKET */
export function readRankTicket(text: string): Handed {
  return readText(handedSchema, text, invalid);
}

/** Writes what came of a ticket. Pure. */
export function writeAnswer(from: From, outcome: { readonly done: RankDone } | { readonly failed: unknown }): string {
  if ("done" in outcome) return JSON.stringify({ ...from, ...outcome });
  const { failed: error } = outcome;
  const { code, params } = error instanceof MusterError ? error : { code: "", params: {} };
  return JSON.stringify({ ...from, failed: { code, message: messageOf(error).slice(0, 8_000), params } });
}

/** Reads the answer of a rank. @throws what the rank failed with, as it would here; MUSTER_ERR_RANK_ANSWER */
export function readAnswer(text: string, wanted: From): RankDone {
  const { rank } = wanted;
  const refused = (reason: string): Error => errors.RankAnswer({ rank, reason });
  const answer = readText(answerSchema, text, refused);
  if (answer.rank !== rank) throw refused(`it is of rank ${answer.rank}`);
  if (answer.build !== wanted.build)
    throw refused(`it has engine build ${answer.build}, and rank 0 has ${wanted.build}`);
  if (answer.order !== wanted.order && answer.order !== "") throw refused("it is the answer to another ticket");
  if ("done" in answer) return answer.done;
  const { code, message, params } = answer.failed;
  if (code === "") throw new Error(`rank ${rank}: ${message}`);
  throw new MusterError(code, `rank ${rank}: ${message}`, { retryable: false, params });
}
