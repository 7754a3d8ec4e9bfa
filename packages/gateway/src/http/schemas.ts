/** What requests look like, and what they are answered with. Field names are those of the checkpoint service's document. */
import { z } from "zod";
import { portRanges } from "../topology/leases.ts";

const depthMax = 32;

/** Names of roles; their ids are `{role}_{rank}`. */
const roleName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, "is 1 to 64 letters, digits, _, . or -");
const rankMax = 1_048_575;
const rankNumber = z.int().min(0).max(rankMax);
const text = z.string().max(256);
const name = z.string().min(1).max(256);

/** Text of a query that stands for a number. */
const numeric = (schema: z.ZodType<number, number>) =>
  z
    .string()
    .regex(/^-?\d{1,15}(\.\d{1,9})?$/, "is not a number")
    .transform(Number)
    .pipe(schema);

const rank = numeric(rankNumber);
const flag = z
  .string()
  .transform((value) => value.toLowerCase())
  .pipe(z.enum(["true", "false", "1", "0"], "is true or false"))
  .transform((value) => value === "true" || value === "1");
const waitSeconds = numeric(z.number().min(0).max(300));
const optionalId = name.optional();

const metadata = z
  .record(z.string().max(256), z.unknown())
  .refine((value) => isShallow(value), `is nested more than ${depthMax} deep`);

/** Whether a value is nested no deeper than it may be. Does not recurse, so that depth does no harm. */
function isShallow(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= depthMax; depth++) {
    level = level.flatMap((each) => (typeof each === "object" && each !== null ? Object.values(each) : []));
    if (level.length === 0) return true;
  }
  return false;
}

/** Body of `POST /register`. */
export const registerRequest = z.object({
  role_name: roleName,
  rank: rankNumber.nullish(),
  world_size: z.int().min(0).max(rankMax).nullish(),
  ip: text.min(1).nullish(),
  port: z.int().min(0).max(65_535).nullish(),
  device_id: z.int().min(-1).max(65_535).nullish(),
  metadata: metadata.nullish(),
  incarnation: name.nullish(),
});

const dimension = z.int().min(0);

/** Body of `POST /send_weight_meta`. */
export const sendWeightMetaRequest = z
  .object({
    names: z.array(z.string().max(1_024)).max(65_536),
    dtypes: z.array(text).max(65_536),
    shapes: z.array(z.array(dimension).max(16)).max(65_536),
    group_name: text,
    update_id: optionalId.nullish(),
    sender: optionalId.nullish(),
    metadata: metadata.nullish(),
  })
  .superRefine(({ names, dtypes, shapes }, context) => {
    // The mark at the end of an update has a name and no tensors.
    if (dtypes.length === 0 && shapes.length === 0) return;
    for (const [path, { length }] of Object.entries({ dtypes, shapes }))
      if (length !== names.length)
        context.addIssue({
          code: "custom",
          path: [path],
          message: `has ${length} entries, and names has ${names.length}`,
        });
  });

/** Body of `POST /offer_weights`. */
export const offerWeightsRequest = z.object({
  group_name: name,
  version: z.int().min(0),
  sender: name,
  manifest: metadata,
  incarnation: name.nullish(),
});

/** Body of `POST /acquire_lock`. */
export const acquireLockRequest = z.object({
  name,
  owner: name,
  lease_seconds: z.number().min(0.1).max(3_600).default(300),
  wait_timeout_s: z.number().min(0).max(300).default(0),
  incarnation: name.nullish(),
});

/** Body of `POST /release_lock`. */
export const releaseLockRequest = z.object({ name, token: z.int().min(1) });

/** Body of `POST /lease_port`. */
export const leasePortRequest = z.object({
  service: z.enum(Object.keys(portRanges) as [keyof typeof portRanges, ...(keyof typeof portRanges)[]]),
  owner: name,
  ip: name,
  taken: z.array(z.int().min(1).max(65_535)).max(1_000).default([]),
  incarnation: name.nullish(),
});

/** Queries by what they ask for. */
export const queries = {
  none: z.object({}),
  node: z.object({ role: roleName, rank }),
  oneLife: z.object({ role: roleName, rank, incarnation: optionalId }),
  topology: z.object({
    role_filter: roleName.optional(),
    after_epoch: numeric(z.int().min(0)).optional(),
    wait_timeout_s: waitSeconds.default(0),
  }),
  peer: z.object({ role: roleName, rank, peer_role: roleName.optional() }),
  groupRanks: z.object({
    role: roleName,
    rank,
    need_update_ref: flag.default(false),
    membership_epoch: numeric(z.int().min(0)).optional(),
  }),
  weightMeta: z.object({
    index: numeric(z.int().min(0)).default(0),
    update_id: z.string().max(256).default(""),
    group_name: text.optional(),
    wait_timeout_s: waitSeconds.default(0),
  }),
  offer: z.object({
    group_name: name,
    after_version: numeric(z.int().min(-1)).optional(),
    wait_timeout_s: waitSeconds.default(0),
  }),
  clear: z.object({ update_id: z.string().max(256).default("") }),
  health: z.object({ since: numeric(z.int().min(0)).optional() }),
};

const roleInfo = z.object({
  role_name: z.string(),
  rank: z.int(),
  world_size: z.int().nullable(),
  ip: z.string().nullable(),
  port: z.int().nullable(),
  device_id: z.int().nullable(),
  metadata: z.record(z.string(), z.unknown()),
});
const done = z.object({ status: z.literal("success"), message: z.string() });
const epoch = z.int().describe("rises whenever the membership changes");

/** Answers by what they say. */
export const answers = {
  roleInfo,
  done,
  registered: z.object({ status: z.literal("success"), message: z.string(), rank: z.int(), node_id: z.string() }),
  heartbeat: z.object({ status: z.literal("ok"), timestamp: z.number() }),
  topology: z.object({
    nodes: z.record(z.string(), z.record(z.string(), roleInfo)),
    world_size: z.int().describe("living nodes of all roles"),
    membership_epoch: epoch,
  }),
  globalRank: z.object({ global_rank: z.int() }),
  groupRanks: z.object({
    global_rank: z.int(),
    world_size: z.int(),
    train_pp_size: z.int(),
    pp_groups: z.record(z.string(), z.string()),
    membership_epoch: epoch,
  }),
  weightMeta: z.array(
    z.object({
      names: z.array(z.string()),
      dtypes: z.array(z.string()),
      shapes: z.array(z.array(z.int())),
      group_name: z.string(),
      metadata: z.record(z.string(), z.unknown()).optional(),
    }),
  ),
  health: z.object({
    status: z.literal("healthy"),
    timestamp: z.number(),
    world_size: z.int(),
    dead_nodes: z.array(z.string()).describe("all that are dead"),
    newly_dead_nodes: z.array(z.string()).describe("dead since the last call, or since the epoch asked for"),
    membership_epoch: epoch,
  }),
  debug: z.record(z.string(), z.unknown()),
  lock: z.object({
    status: z.enum(["acquired", "held"]),
    token: z.int().nullable(),
    owner: z.string(),
  }),
  offered: z.object({ status: z.literal("success"), version: z.int() }),
  offer: z.object({
    version: z.int().nullable().describe("newest of the group, null when there never was one"),
    sender: z.string().nullable(),
    manifest: z.record(z.string(), z.unknown()).nullable().describe("null when its source is gone"),
  }),
  port: z.object({ status: z.literal("success"), port: z.int() }),
  error: z.object({
    status: z.literal("error"),
    message: z.string().describe("one sentence that names the field"),
    detail: z.string().describe("the same sentence"),
    field: z.string().optional(),
  }),
};
