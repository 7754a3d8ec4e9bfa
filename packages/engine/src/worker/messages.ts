/** What a worker says, checked strictly: whatever does not fit ends it. Keys that are not known are ignored, so that workers may be newer. */
import { z } from "@muster/protocol";
import { dtypeNames, tableRowsMax } from "@muster/tensors";

/** Version of the protocol that is spoken here. */
export const protocolVersion = 1;

const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const text = z.string().min(1).max(128);

const tensorSchema = z.object({
  name: z.string(),
  dtype: z.enum(dtypeNames as [(typeof dtypeNames)[number]]),
  shape: z.array(count).max(8),
  offsetBytes: count,
});

/** Rows of a table that come in one message. */
const pageRowsMax = 10_000;

/** Some rows of the tensor table, after a hello that says only how many it has. */
export const tensorsSchema = z.object({
  type: z.literal("tensors"),
  rows: z.array(tensorSchema).min(1).max(pageRowsMax),
});

/** What a worker may be: an engine, or a scorer of what others drew. */
export const workerRoles = ["policy", "rollout", "reward", "reference"] as const;

/** As {@link workerRoles}. */
export type WorkerRole = (typeof workerRoles)[number];

/** The first message of any worker. */
export const selfSchema = z.object({
  type: z.literal("hello"),
  protocol: z.literal(protocolVersion),
  roles: z.array(z.enum(workerRoles)).min(1).max(workerRoles.length),
  build: text,
  deterministic: z.boolean(),
});

/** The first message of a worker that is an engine: what its model is, besides. */
export const helloSchema = selfSchema.extend({
  modelId: text,
  vocab: z
    .int()
    .min(1)
    .max(2 ** 24),
  maxContext: z
    .int()
    .min(2)
    .max(2 ** 24),
  tensors: z.array(tensorSchema).min(1).max(tableRowsMax).optional(),
  /** Instead of `tensors`: how many rows come in messages of their own. */
  tensorRows: z.int().min(1).max(tableRowsMax).optional(),
  optimizerBytes: count.default(0),
  /** Absent where every element of the tensors is trained. */
  gradientElements: count.min(1).optional(),
  logprobs: z.enum(["sampled-dist", "raw"]).default("sampled-dist"),
  /** What came of a short computation on its machine. */
  fingerprint: text.optional(),
  /** Names that are not known here are those of a newer worker: no job asks for them. */
  losses: z.array(text).max(64).default([]),
  /** Roles in which it can be several processes. */
  processes: z.array(z.enum(workerRoles)).max(workerRoles.length).default([]),
  modelConfig: z.record(z.string(), z.unknown()).default({}),
});

/** A worker that can not be what is asked says why, instead of a hello. */
export const refusalSchema = z.object({ type: z.literal("refusal"), message: z.string().min(1).max(2_000) });

/** Everything that a worker says after its hello. */
export const messageSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("pong"), id: count }),
  z.object({ type: z.literal("reply"), id: count, result: z.record(z.string(), z.unknown()) }),
  z.object({
    type: z.literal("failure"),
    id: count,
    kind: z.enum(["failed", "invalid", "cancelled"]),
    message: z.string().max(10_000),
  }),
]);

const element = { i32: Int32Array, f32: Float32Array, f64: Float64Array, u8: Uint8Array } as const;

/** Element type of an array in a region. */
export type ElementType = keyof typeof element;

/** Arrays by element type. */
export const arrayTypes = element;

/** Where an array lies in a region. */
export const placeSchema = z.object({ dtype: z.enum(["i32", "f32", "f64", "u8"]), offsetBytes: count, length: count });

/** As {@link placeSchema}. */
export type Place = z.infer<typeof placeSchema>;

/** Figures of one micro-shard. */
export const statsSchema = z.object({
  tokens: count,
  clipped: count,
  klSum: z.number(),
  entropySum: z.number(),
  lossSum: z.number(),
  logprobGapSum: z.number().min(0).optional(),
  logprobGapMax: z.number().min(0).optional(),
  referenceKlSum: z.number().optional(),
});

/** Outcome of an update: a norm that is not finite is `null`, since JSON has no other number for it. */
export const stagedSchema = z
  .object({ gradNorm: z.number().min(0).nullable(), finite: z.boolean() })
  .refine(({ gradNorm, finite }) => !finite || gradNorm !== null, { path: ["gradNorm"], error: "null, and finite" });

/** Responses of all requests, one behind the other; `finishes` has 0 for stop, 1 for length, 2 for abort. */
export const generatedSchema = z.object({
  version: count,
  arrays: z.object({ lengths: placeSchema, finishes: placeSchema, tokens: placeSchema, logprobs: placeSchema }),
});

/** Scores of all trajectories of a request, in order; each is looked at by itself. */
export const scoredSchema = z.object({ scores: z.array(z.unknown()) });

/** Log-probabilities of the response tokens of all sequences, one behind the other. */
export const referredSchema = z.object({ arrays: z.object({ logprobs: placeSchema }) });

/** What a schema finds wrong, as the end of a sentence. */
export function faultOf(error: z.ZodError): string {
  const [issue] = error.issues;
  return `${issue?.path.join(".") || "it"}: ${issue?.message ?? "not understood"}`;
}
