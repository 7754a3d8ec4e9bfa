/**
 * What the acting controller shows of its job: JSON under one key of the state store, written once a second. For display only; whoever decides reads
 * messages. Readers leave fields aside that they do not know.
 */
import { messageOf } from "@muster/base";
import { z } from "zod";
import { readPlain } from "./codec.ts";
import { countSchema } from "./envelope.ts";
import { errors } from "./errors.ts";
import { writeJson } from "./json.ts";
import { engineKindsSchema } from "./messages/parts.ts";
import { perRole } from "./role-table.ts";
import { changedSettingsSchema } from "./settings.ts";

/** Key of the status in the job's state store. */
export const statusKey = "status";

const maybe = z.number().nullable();
/** How many there are, by role and health. */
const totals = z.record(z.string(), z.record(z.string(), z.number()));

const memberSchema = z.object({
  id: z.string(),
  role: z.string(),
  /** Ranks that share its model. */
  ranks: z.number(),
  incarnation: z.string(),
  health: z.string(),
  host: z.string(),
  pid: z.number(),
  version: maybe,
  order: z.string().nullable(),
  phase: z.string().nullable(),
  /** Since its last heartbeat, when the status was written. */
  beatAgeMs: maybe,
  loopLagMs: maybe,
  rssBytes: maybe,
});

const causeSchema = z.object({
  name: z.string(),
  message: z.string(),
  /** Where it was thrown; `null` when that is not known. */
  frame: z.string().nullable(),
  count: z.number(),
  /** `<step>.<index>/<sample>` of the first one. */
  sample: z.string().nullable(),
});

const fleetNodeSchema = z.object({
  id: z.string(),
  host: z.string(),
  cordoned: z.boolean(),
  /** Signs that its host may fail soon. */
  signs: z.array(z.string()),
  replicas: z.number(),
  /** `null` is no limit. */
  capacity: z.object(perRole(() => maybe)),
  /** Devices that it gives to replicas. */
  devices: z.array(z.string()).default([]),
});

const fleetReplicaSchema = z.object({
  id: z.string(),
  role: z.string(),
  node: z.string().nullable(),
  health: z.string(),
  life: z.number(),
  deaths: z.number(),
  cordoned: z.boolean(),
  /** Devices that are its own. */
  devices: z.array(z.string()).default([]),
  /** Of a replica of several processes: how many of them run, and what is said of those that do not. */
  ranks: z.object({ size: z.number(), up: z.number(), absent: z.array(z.string()) }).optional(),
});

/** What should run where, and how it is. */
const fleetSchema = z.object({
  wanted: z.object(perRole(() => z.number())),
  nodes: z.array(fleetNodeSchema),
  replicas: z.array(fleetReplicaSchema),
  /** All managed replicas. */
  totals,
  /** Rows that are left out; those of who is well are left out first. */
  leftOut: z.object({ nodes: z.number(), replicas: z.number() }),
  /** What the job lacks, in words. */
  missing: z.array(z.string()),
  /** Commands of operators that are not done yet. */
  commands: z.array(z.object({ id: z.string(), kind: z.string(), asked: z.string() })),
});

/** The status of a job. */
export const statusSchema = z.object({
  job: z.string(),
  /** Wall time of the controller. */
  atMs: z.number(),
  term: z.number(),
  /** The process of the controller that wrote it. */
  controller: z.object({ host: z.string(), pid: z.number() }),
  phase: z.string(),
  /** The job in the words of a multi-node script with the phases 0 to 13, and who holds it up; absent where an earlier controller writes. */
  script: z
    .object({
      phases: z.tuple([z.number(), z.number()]),
      says: z.string(),
      waitsFor: z.array(z.string()),
      /** Those that are not named. */
      more: z.number(),
    })
    .optional(),
  /** Settings that were changed since the job began, by the step from which they count. */
  changes: z.array(changedSettingsSchema).optional(),
  step: z.number(),
  steps: z.number(),
  attempt: z.number(),
  epoch: z.number(),
  mesh: z.array(z.string()),
  /** What the trainers compute with, as far as they say it; absent where nobody does. */
  engines: engineKindsSchema.optional(),
  /** The same of the samplers that are there. */
  samplers: engineKindsSchema.optional(),
  lineage: z.number(),
  version: maybe,
  sections: z.array(z.object({ name: z.enum(["weights", "optimizer"]), bytes: countSchema, digest: z.string() })),
  leases: z.number(),
  /** Results of rollout replicas that were of no use, by why. */
  dropped: z.object({ duplicate: z.number(), stale: z.number() }),
  ledger: z.object({
    ...{ admitted: z.number(), trained: z.number(), aborted: z.number() },
    ...{ quarantined: z.number(), pending: z.number() },
  }),
  /** Root causes of trajectories that were given up, the most frequent first. */
  causes: z.array(causeSchema),
  /** In all terms: incidents by kind, those the job has not recovered from, tokens made for nothing, the productive share of the time. */
  incidents: z.object({
    counts: z.record(z.string(), z.number()),
    open: z.number(),
    tokensWasted: z.number(),
    ettr: maybe,
  }),
  checkpoint: z.object({ step: z.number(), path: z.string() }).nullable(),
  /** The best one at held-out prompts; absent where nobody says. */
  best: z
    .object({ step: z.number(), path: z.string(), prompts: z.number(), correct: z.number() })
    .nullable()
    .optional(),
  members: z.array(memberSchema),
  /** All members. */
  totals,
  /** Rows of members that are left out; those of who is well are left out first. */
  membersLeftOut: z.number(),
  fleet: fleetSchema,
  /** How full the streams are, by name. */
  streams: z.record(z.string(), z.object({ bytes: z.number(), bytesMax: maybe })),
});

type Fixed<T> = T extends object ? { readonly [K in keyof T]: Fixed<T[K]> } : T;

/** The status of a job. */
export type JobStatus = Fixed<z.infer<typeof statusSchema>>;

/** One member in the status. */
export type MemberStatus = JobStatus["members"][number];

/** Writes the status, as JSON. */
export function encodeStatus(status: JobStatus): Uint8Array {
  return writeJson(status);
}

/** Reads the status of a job; one of earlier controllers, too, which packed it. @throws MUSTER_ERR_STATUS_UNREADABLE */
export function decodeStatus(data: Uint8Array, job: string): JobStatus {
  try {
    return statusSchema.parse(readPlain(data));
  } catch (error) {
    throw errors.StatusUnreadable({ job, reason: messageOf(error) }, error);
  }
}
